#!/bin/bash
# A sweep as a Slurm job array: each task runs its share of the sweep's runs.
#
#   sbatch --array=1-8 experiments/cluster/slurm_array.sh --task=emnist --algo=fedavg --algo=mime \
#     --grid client_learning_rate=0.1,0.03,0.01 --seeds=1,2,3 --sweep_name=rates
#
# All arguments are passed to sweep.py. The array must start at 1. Submit from the root of the repository, on a
# file system that all nodes share. VENV is the environment (default: .venv). Submitting the same command again
# continues the unfinished runs. When all tasks are done, the same arguments without Slurm write the tables:
#
#   python experiments/sweep.py --task=emnist ... --sweep_name=rates
#SBATCH --job-name=tff-momentum-sweep
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --output=%x-%A-%a.log

set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?Submit this script with sbatch.}"
source "${VENV:-.venv}/bin/activate"
shard="${SLURM_ARRAY_TASK_ID:?Submit this script with --array=1-N.}/$SLURM_ARRAY_TASK_COUNT"

python experiments/sweep.py --shard="$shard" --quiet "$@" &
sweep=$!
# Slurm signals this shell two minutes before the time limit; the runs then finish their round and checkpoint.
trap 'kill -TERM $sweep' TERM
wait $sweep || true # returns early if a signal arrives
wait $sweep && code=0 || code=$?
exit "$code"
