#!/bin/bash
# One experiment on several Slurm nodes:
#
#   sbatch --nodes=4 --gpus-per-node=4 experiments/cluster/slurm.sh --task=emnist --algo=fedavg
#
# All arguments are passed to run.py. Submit from the root of the repository, on a file system that all nodes
# share. VENV is the environment with tff-momentum[cluster] (default: .venv). Submitting the same command again
# resumes the run from its last checkpoint.
#SBATCH --job-name=tff-momentum
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --output=%x-%j.log

set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?Submit this script with sbatch.}"
source "${VENV:-.venv}/bin/activate"
export RAY_USAGE_STATS_ENABLED=0 RAY_enable_metrics_collection=0
# The port depends on the job's number, so that jobs on the same node do not collide.
port=$((20000 + SLURM_JOB_ID % 20000))
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname -I | awk '{print $1}')
gpus=${SLURM_GPUS_ON_NODE:-0}

node() { # host, arguments of ray start; with --block, the Ray node ends with its job step
  srun --nodes=1 --ntasks=1 --overlap -w "$1" ray start "${@:2}" --block --disable-usage-stats \
    --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="$gpus" &
}

within_minutes() { # minutes, description, command that succeeds when the condition is met
  for _ in $(seq $((12 * $1))); do
    "${@:3}" > /dev/null 2>&1 && return
    sleep 5
  done
  echo "Expected $2 within $1 minutes; found none. See the log above." >&2
  exit 1
}
all_nodes() { [ "$(ray status --address="$address:$port" | grep -c ' node_')" -ge "$SLURM_JOB_NUM_NODES" ]; }

node "$head" --head --node-ip-address="$address" --port="$port" --include-dashboard=false
within_minutes 5 "Ray on $head" ray health-check --address="$address:$port"
for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n +2); do
  node "$host" --address="$address:$port"
done
within_minutes 10 "all $SLURM_JOB_NUM_NODES nodes" all_nodes

python experiments/run.py --runtime=ray --ray_address="$address:$port" --quiet "$@" &
run=$!
# Slurm signals this shell two minutes before the time limit; run.py then finishes its round and checkpoints.
trap 'kill -TERM $run' TERM
wait $run || true # returns early if a signal arrives
wait $run && code=0 || code=$?
exit "$code"
