"""What is decided about GPUs, on machines that are described instead of present."""

import dataclasses
import subprocess
import sys

import pytest

from tests import ROOT
from tff_momentum.runtime import gpu_decisions, gpu_machine
from tff_momentum.runtime.gpu_decisions import (
  GIGABYTE,
  LIBRARIES,
  FunctionKind,
  Gpu,
  Machine,
  Options,
  Xla,
  decide,
)

INSTALLED = Machine(
  cores=16,
  driver=(535, 54, 3),
  libraries=frozenset(LIBRARIES),
  xla_root=("/site/nvidia/cuda_nvcc", True),
  ptxas=True,
  nvrtc="/site/nvidia/cuda_nvrtc/lib",
  nvrtc_link=True,
)
CARD = Gpu("RTX 3070", 8 * GIGABYTE, (8, 6))
A100 = Gpu("A100", 80 * GIGABYTE, (8, 0))
B200 = Gpu("NVIDIA B200", 180 * GIGABYTE, (10, 0))
NO_GPU = Machine(cores=4)
LOGREG, RESNET18, VIT = 4 * 7850, 4 * 11_000_000, 4 * 86_000_000


def with_gpus(*gpus, **changes):
  return dataclasses.replace(INSTALLED, gpus=gpus, **changes)


def problems(found):
  return [sentence.text for sentence in found.sentences if sentence.is_problem]


def test_no_gpu():
  found = decide(NO_GPU)
  assert (found.kind, found.gpus, found.slots, found.sentences) == ("CPU", (), 4, ())
  assert found.xla is gpu_decisions.XLA["CPU"]
  (problem,) = problems(decide(NO_GPU, Options(devices="gpu:2")))
  assert problem == "--devices=gpu:2 needs a GPU; use cpu or auto."


def test_logical_cpus_share_the_cores():
  found = decide(NO_GPU, Options(devices="cpu:2"))
  assert (found.kind, found.logical_devices, found.slots) == ("CPU", 2, 2)


def test_one_small_card():
  found = decide(with_gpus(CARD), Options(model_bytes=LOGREG))
  assert (found.kind, found.gpus, found.logical_devices, found.slots) == ("GPU", (0,), 1, 8)
  assert found.memory_limit_bytes is None
  assert (found.tf32, found.xla_flags) == (False, "")
  assert not problems(found)
  assert found.sentences[0].text == "GPU 0 (RTX 3070) has compute capability 8.6 and 8 GB."
  assert decide(with_gpus(CARD), Options(model_bytes=VIT)).slots == 1


def test_eight_large_cards():
  cluster = with_gpus(*[A100] * 8, cores=64)
  slots = [decide(cluster, Options(model_bytes=n)).slots for n in (LOGREG, RESNET18, VIT)]
  assert slots == [8, 2, 1]
  found = decide(cluster, Options(devices="gpu:4", model_bytes=LOGREG))
  assert (found.gpus, found.logical_devices, found.slots) == (tuple(range(8)), 4, 2)
  assert found.memory_limit_bytes == 79 * GIGABYTE // 4
  # Each client in flight needs a core that launches its kernels.
  assert decide(dataclasses.replace(cluster, cores=16), Options(model_bytes=LOGREG)).slots == 2
  assert decide(cluster, Options(max_clients_in_flight=32)).slots == 4


def test_logical_devices_must_fit_into_memory():
  with pytest.raises(ValueError, match="at most 28 logical devices on a GPU with 8 GB, found 40"):
    decide(with_gpus(CARD), Options(devices="gpu:40"))


def test_a_driver_that_is_too_old():
  found = decide(with_gpus(CARD, driver=(418, 87, 0)))
  assert found.kind == "CPU"
  (problem,) = problems(found)
  assert "driver is 418.87.00; CUDA 11.8 needs 450.80.02 or newer" in problem
  assert "--devices=cpu" in problem


def test_a_driver_that_cannot_compile_for_a_new_card():
  hopper = Gpu("H100", 80 * GIGABYTE, (9, 0))
  old = with_gpus(hopper, driver=(470, 57, 2))
  assert "needs driver 520.61.05 or newer, found 470.57.02" in problems(decide(old))[0]
  assert decide(with_gpus(hopper)).kind == "GPU"
  older_card = decide(with_gpus(CARD, driver=(470, 57, 2)))
  assert older_card.kind == "GPU"
  assert "520.61.05 or newer is better" in older_card.sentences[1].text


def test_blackwell_gets_one_sentence_and_other_cards_are_used():
  found = decide(with_gpus(B200))
  assert found.kind == "CPU"
  (problem,) = problems(found)
  assert "GPU 0 (NVIDIA B200) has compute capability 10.0; CUDA 11.8" in problem
  assert "ends at 9.0" in problem
  both = decide(with_gpus(B200, A100))
  assert (both.kind, both.gpus) == ("GPU", (1,))
  assert not decide(with_gpus(B200), Options(devices="cpu")).sentences


def test_an_ancient_card():
  kepler = Gpu("GT 640", 2 * GIGABYTE, (3, 0))
  assert "TensorFlow 2.14.1 needs 3.5 or more" in problems(decide(with_gpus(kepler)))[0]


def test_a_library_path_that_hides_pips_libraries():
  found = decide(with_gpus(CARD, shadowing=(("libcudnn.so.8", "/opt/cudnn/lib64"),)))
  (problem,) = problems(found)
  assert "LD_LIBRARY_PATH contains /opt/cudnn/lib64, so its libcudnn.so.8" in problem
  assert "module unload" in problem


def test_without_libdevice_nothing_is_compiled():
  found = decide(with_gpus(CARD, xla_root=None), Options(convolutions="xla"))
  assert set(found.xla.values()) == {Xla.NOTHING}
  assert "XLA finds no libdevice" in problems(found)[0]
  assert "XLA finds no ptxas" in problems(decide(with_gpus(CARD, ptxas=False)))[0]


def test_libdevice_in_an_unusual_place_becomes_a_flag_of_xla():
  found = decide(with_gpus(CARD, xla_root=("/opt/cuda", False)))
  assert found.xla_flags == "--xla_gpu_cuda_data_dir=/opt/cuda"


def test_nvrtc_must_have_the_name_that_cudnn_opens():
  (problem,) = problems(decide(with_gpus(CARD, nvrtc_link=False)))
  assert "ln -s /site/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2" in problem
  assert "NVRTC, found none" in problems(decide(with_gpus(CARD, nvrtc=None)))[0]


def test_missing_libraries_are_named():
  found = decide(with_gpus(CARD, libraries=frozenset(LIBRARIES) - {"cudnn"}))
  assert any("lack cudnn:" in sentence.text for sentence in found.sentences)


def test_what_xla_compiles():
  on_gpu = decide(with_gpus(CARD)).xla
  assert on_gpu[FunctionKind.RECURRENT] is Xla.EVERYTHING
  assert on_gpu[FunctionKind.CUDNN_RNN] is Xla.NOTHING
  assert on_gpu[FunctionKind.CONVOLUTIONS] is Xla.NOTHING
  assert Xla.MAX_POOL_GRADIENTS not in on_gpu.values()
  by_xla = decide(with_gpus(CARD), Options(convolutions="xla")).xla
  assert by_xla[FunctionKind.CONVOLUTIONS] is Xla.EVERYTHING
  for table in gpu_decisions.XLA.values():
    assert table.keys() == set(FunctionKind)


def test_tf32_and_determinism_are_asked_for():
  found = decide(with_gpus(CARD), Options(tf32=True, deterministic=True))
  assert found.tf32
  assert found.deterministic


@pytest.fixture
def site(tmp_path):
  """A folder of packages as pip fills it with the extra `gpu`."""
  nvidia = tmp_path / "site" / "nvidia"
  for name, file in {**LIBRARIES, "cuda_nvrtc": "libnvrtc.so.11.2"}.items():
    (nvidia / name / "lib").mkdir(parents=True)
    (nvidia / name / "lib" / file).touch()
  (nvidia / "cuda_nvcc" / "nvvm" / "libdevice").mkdir(parents=True)
  (nvidia / "cuda_nvcc" / "nvvm" / "libdevice" / "libdevice.10.bc").touch()
  (nvidia / "cuda_nvcc" / "bin").mkdir()
  (nvidia / "cuda_nvcc" / "bin" / "ptxas").touch()
  return tmp_path / "site"


ANSWER = "NVIDIA A100-SXM4-80GB, 81920, 8.0, 535.54.03\n" * 2


def describe(tmp_path, packages, **environment):
  return gpu_machine.describe(environment, packages, ANSWER, str(tmp_path / "no_cuda"))


def test_a_machine_with_the_extra_installed(tmp_path, site):
  found = describe(tmp_path, [site])
  assert found.gpus == (Gpu("NVIDIA A100-SXM4-80GB", 80 * GIGABYTE, (8, 0)),) * 2
  assert found.driver == (535, 54, 3)
  assert found.libraries == set(LIBRARIES)
  assert found.xla_root == (str(site / "nvidia/cuda_nvcc"), True)
  assert (found.ptxas, found.shadowing) == (True, ())
  assert (found.nvrtc, found.nvrtc_link) == (str(site / "nvidia/cuda_nvrtc/lib"), False)
  command = problems(decide(found))[0].split("`")[1]
  subprocess.run(command.split(), check=True)  # the command that the sentence gives helps
  assert describe(tmp_path, [site]).nvrtc_link
  assert not problems(decide(describe(tmp_path, [site])))


def test_a_module_that_sets_the_library_path(tmp_path, site):
  (tmp_path / "cudnn").mkdir()
  (tmp_path / "cudnn" / "libcudnn.so.8").touch()
  found = describe(tmp_path, [site], LD_LIBRARY_PATH=f"/nowhere:{tmp_path / 'cudnn'}")
  assert found.shadowing == (("libcudnn.so.8", str(tmp_path / "cudnn")),)


def test_wheels_in_another_folder_than_tensorflow(tmp_path, site):
  (tmp_path / "tf").mkdir()
  found = describe(tmp_path, [tmp_path / "tf", site])
  assert found.xla_root == (str(site / "nvidia/cuda_nvcc"), False)
  assert found.ptxas


def test_a_machine_without_a_driver(tmp_path):
  found = gpu_machine.describe({}, [], "", str(tmp_path))
  assert (found.gpus, found.driver, found.libraries, found.xla_root) == (
    (),
    None,
    frozenset(),
    None,
  )


def test_decisions_need_no_tensorflow():
  code = (
    "import sys; from tff_momentum.runtime import gpu_decisions, gpu_machine\n"
    "gpu_decisions.decide(gpu_machine.describe()); print('tensorflow' in sys.modules)"
  )
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
  assert result.stdout.strip() == "False", result.stderr
