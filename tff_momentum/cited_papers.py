"""Papers that the library cites but that introduce no federated algorithm; `tff_momentum.papers` has all."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Paper:
  """One publication.

  Attributes:
    authors: all of them, in the paper's order.
    title: as printed.
    venue: the conference or journal, or "arXiv" for a preprint.
    year: of that venue.
    link: arXiv or DOI; empty where the work has neither.
    note: anything a reader needs in order to find the passages that the library cites.
  """

  authors: str
  title: str
  venue: str
  year: int
  link: str
  note: str = ""


def arxiv(number: str) -> str:
  """The address of a preprint."""
  return f"https://arxiv.org/abs/{number}"


def doi(number: str) -> str:
  """The address of a publication with this DOI."""
  return f"https://doi.org/{number}"


OPTIMIZATION: dict[str, Paper] = {
  "Zaccone et al. 2025": Paper(
    "Riccardo Zaccone, Sai Praneeth Karimireddy, Carlo Masone",
    "On the Limits of Momentum in Decentralized and Federated Optimization",
    "arXiv",
    2025,
    arxiv("2511.20168"),
    "Momentum under cyclic participation; the claim `cyclic`.",
  ),
  "QHM": Paper(
    "Jerry Ma, Denis Yarats",
    "Quasi-hyperbolic momentum and Adam for deep learning",
    "ICLR",
    2019,
    arxiv("1810.06801"),
    "FedGM is QHM at the server; the maps of `fedsnv`, `fedpid`, `fedasgd` and `fedtm` come from it.",
  ),
  "Lessard et al. 2016": Paper(
    "Laurent Lessard, Benjamin Recht, Andrew Packard",
    "Analysis and Design of Optimization Algorithms via Integral Quadratic Constraints",
    "SIAM Journal on Optimization",
    2016,
    arxiv("1408.3595"),
    "`fedsnv`.",
  ),
  "An et al. 2018": Paper(
    "Wangpeng An, Haoqian Wang, Qingyun Sun, Jun Xu, Qionghai Dai, Lei Zhang",
    "A PID Controller Approach for Stochastic Optimization of Deep Networks",
    "CVPR",
    2018,
    doi("10.1109/CVPR.2018.00889"),
    "`fedpid`.",
  ),
  "Kidambi et al. 2018": Paper(
    "Rahul Kidambi, Praneeth Netrapalli, Prateek Jain, Sham M. Kakade",
    "On the insufficiency of existing momentum schemes for Stochastic Optimization",
    "ICLR",
    2018,
    arxiv("1803.05591"),
    "`fedasgd`.",
  ),
  "Van Scoy et al. 2018": Paper(
    "Bryan Van Scoy, Randy A. Freeman, Kevin M. Lynch",
    "The Fastest Known Globally Convergent First-Order Method for Minimizing Strongly Convex Functions",
    "IEEE Control Systems Letters",
    2018,
    doi("10.1109/LCSYS.2017.2722406"),
    "`fedtm`.",
  ),
  "STORM": Paper(
    "Ashok Cutkosky, Francesco Orabona",
    "Momentum-Based Variance Reduction in Non-Convex SGD",
    "NeurIPS",
    2019,
    arxiv("1905.10018"),
    "The rule `mvr` of `fedsgd` and `mime_mvr`.",
  ),
  "QSGD": Paper(
    "Dan Alistarh, Demjan Grubic, Jerry Li, Ryota Tomioka, Milan Vojnovic",
    "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding",
    "NeurIPS",
    2017,
    arxiv("1610.02132"),
    "The quantiser of every compressed upload.",
  ),
  "Jamieson and Talwalkar 2016": Paper(
    "Kevin Jamieson, Ameet Talwalkar",
    "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
    "AISTATS",
    2016,
    arxiv("1502.07943"),
    "Successive halving in sweeps.",
  ),
}

DATA_AND_MODELS: dict[str, Paper] = {
  "LEAF": Paper(
    "Sebastian Caldas, Sai Meher Karthik Duddu, Peter Wu, Tian Li, Jakub Konečný, H. Brendan McMahan, "
    "Virginia Smith, Ameet Talwalkar",
    "LEAF: A Benchmark for Federated Settings",
    "arXiv",
    2018,
    arxiv("1812.01097"),
    "FEMNIST, Shakespeare and Sentiment140 by user.",
  ),
  "Hsu et al. 2020": Paper(
    "Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown",
    "Federated Visual Classification with Real-World Data Distribution",
    "ECCV",
    2020,
    arxiv("2003.08082"),
    "Landmarks and iNaturalist by user; the LeNet-like CNN.",
  ),
  "He et al. 2016": Paper(
    "Kaiming He, Xiangyu Zhang, Shaoqing Ren, Jian Sun",
    "Deep Residual Learning for Image Recognition",
    "CVPR",
    2016,
    arxiv("1512.03385"),
    "ResNet-20.",
  ),
  "Sandler et al. 2018": Paper(
    "Mark Sandler, Andrew Howard, Menglong Zhu, Andrey Zhmoginov, Liang-Chieh Chen",
    "MobileNetV2: Inverted Residuals and Linear Bottlenecks",
    "CVPR",
    2018,
    arxiv("1801.04381"),
  ),
  "Dosovitskiy et al. 2021": Paper(
    "Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua Zhai, "
    "Thomas Unterthiner, Mostafa Dehghani, Matthias Minderer, Georg Heigold, Sylvain Gelly, Jakob Uszkoreit, "
    "Neil Houlsby",
    "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
    "ICLR",
    2021,
    arxiv("2010.11929"),
    "ViT-B/16.",
  ),
}
