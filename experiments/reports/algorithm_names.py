"""The names of the algorithms as spelled in their papers."""

SPELLED = {
  "fedsgd": "FedSGD", "fedavg": "FedAvg", "fedprox": "FedProx", "fedmax": "FedMAX",
  "fedavg_lm": "FedAvg-LM", "fedavg_glm": "FedAvg-GLM", "fedavgm": "FedAvgM",
  "fedadagrad": "FedAdagrad", "fedadam": "FedAdam", "fedyogi": "FedYogi", "fedrmsprop": "FedRMSProp",
  "fedgm": "FedGM", "fedgm_staged": "FedGM (staged)", "fednag": "FedNAG", "fedsnv": "FedSNV",
  "fedpid": "FedPID", "fedasgd": "FedASGD", "fedtm": "FedTM", "mime": "Mime", "mimelite": "MimeLite",
  "mimexlite": "MimeXlite", "mime_mvr": "MimeMVR", "fedgbo": "FedGBO", "mfl": "MFL", "fedcm": "FedCM",
  "fedadc": "FedADC", "ghbm": "GHBM", "scaffold": "SCAFFOLD", "feddyn": "FedDyn",
  "adabest": "AdaBest", "local_ghbm": "LocalGHBM", "fedhbm": "FedHBM", "fedcomgate": "FedCOMGATE",
  "fedpaq": "FedPAQ", "fedpaq_lm": "FedPAQ-LM", "fedpaq_glm": "FedPAQ-GLM", "fedlomo": "FedLOMO",
  "fedglomo": "FedGLOMO", "autofedavg": "AutoFedAvg", "autofedgm": "AutoFedGM",
  "autofedgm_staged": "AutoFedGM (staged)", "fedacg": "FedACG", "fednova": "FedNova", "fedsam": "FedSAM",
  "fedexp": "FedExP", "fedinit": "FedInit",
  "mofedsam": "MoFedSAM", "fedlion": "FedLion", "fedadamw": "FedAdamW", "fedmuon": "FedMuon",
  "scaffold_m": "SCAFFOLD-M", "fedspeed": "FedSpeed", "diloco": "DiLoCo",
  "centralised": "Centralised (reference)", "local_only": "Local only (reference)",
}  # fmt: skip


def spelled(algo: str) -> str:
  """The name for tables and figures; an unknown name is returned unchanged."""
  return SPELLED.get(algo, algo)
