"""Every paper that the library cites, by the short name that code, docs and presets use.

`python -m tff_momentum.papers` prints the page `docs/papers.md`; a test keeps the two equal.

    >>> PAPERS["SCAFFOLD"].link
    'https://arxiv.org/abs/1910.06378'
    >>> PAPERS["SCAFFOLD"].year
    2020
"""

import dataclasses
import textwrap

from tff_momentum.registry import ALGORITHMS

WIDTH = 110


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


def _arxiv(number: str) -> str:
  return f"https://arxiv.org/abs/{number}"


def _doi(number: str) -> str:
  return f"https://doi.org/{number}"


REPRODUCED: dict[str, Paper] = {
  "GHBM": Paper(
    "Riccardo Zaccone, Carlo Masone, Marco Ciccone",
    "Communication-Efficient Heterogeneous Federated Learning with Generalized Heavy-Ball Momentum",
    "arXiv",
    2023,
    _arxiv("2311.18578"),
    "Numbers of sections, equations and tables are those of the early preprint by these three authors; "
    "the later versions, with Sai Praneeth Karimireddy (TMLR 2025), number them differently.",
  ),
  "FedGBO": Paper(
    "Jed Mills, Jia Hu, Geyong Min, Rui Jin, Siwei Zheng, Jin Wang",
    "Accelerating Federated Learning with a Global Biased Optimiser",
    "IEEE Transactions on Computers",
    2022,
    _arxiv("2108.09134"),
    "DOI 10.1109/TC.2022.3212631.",
  ),
  "FedGLOMO": Paper(
    "Rudrajit Das, Anish Acharya, Abolfazl Hashemi, Sujay Sanghavi, Inderjit S. Dhillon, Ufuk Topcu",
    "Faster Non-Convex Federated Learning via Global and Local Momentum",
    "UAI",
    2022,
    _arxiv("2012.04061"),
  ),
  "FedGM": Paper(
    "Jianhui Sun, Xidong Wu, Heng Huang, Aidong Zhang",
    "On the Role of Server Momentum in Federated Learning",
    "AAAI",
    2024,
    _arxiv("2312.12670"),
  ),
  "SCAFFOLD": Paper(
    "Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich, "
    "Ananda Theertha Suresh",
    "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
    "ICML",
    2020,
    _arxiv("1910.06378"),
  ),
  "Mime": Paper(
    "Sai Praneeth Karimireddy, Martin Jaggi, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, "
    "Sebastian U. Stich, Ananda Theertha Suresh",
    "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning",
    "arXiv",
    2020,
    _arxiv("2008.03606"),
    'Published at NeurIPS 2021 as "Breaking the centralized barrier for cross-device federated learning".',
  ),
  "Karimireddy's slides": Paper(
    "Sai Praneeth Karimireddy, Martin Jaggi, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, "
    "Sebastian U. Stich, Ananda Theertha Suresh",
    "Optimization algorithms for heterogeneous clients in Federated Learning",
    "talk",
    2020,
    "",
    "Slides on SCAFFOLD and Mime without a permanent address; the two papers above hold the same results.",
  ),
}

ALGORITHM_PAPERS: dict[str, Paper] = {
  "McMahan et al. 2017": Paper(
    "H. Brendan McMahan, Eider Moore, Daniel Ramage, Seth Hampson, Blaise Agüera y Arcas",
    "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    "AISTATS",
    2017,
    _arxiv("1602.05629"),
    "The paper introduces FedAvg and FedSGD.",
  ),
  "FedProx": Paper(
    "Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar, Virginia Smith",
    "Federated Optimization in Heterogeneous Networks",
    "MLSys",
    2020,
    _arxiv("1812.06127"),
  ),
  "FedMAX": Paper(
    "Wei Chen, Kartikeya Bhardwaj, Radu Marculescu",
    "FedMAX: Mitigating Activation Divergence for Accurate and Communication-Efficient Federated Learning",
    "ECML PKDD",
    2020,
    _arxiv("2004.03657"),
  ),
  "Hsu et al. 2019": Paper(
    "Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown",
    "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
    "arXiv",
    2019,
    _arxiv("1909.06335"),
    "The paper introduces FedAvgM and the Dirichlet split of labels.",
  ),
  "Reddi et al. 2021": Paper(
    "Sashank J. Reddi, Zachary Charles, Manzil Zaheer, Zachary Garrett, Keith Rush, Jakub Konečný, "
    "Sanjiv Kumar, H. Brendan McMahan",
    "Adaptive Federated Optimization",
    "ICLR",
    2021,
    _arxiv("2003.00295"),
    "The paper introduces FedAdagrad, FedAdam and FedYogi.",
  ),
  "MFL": Paper(
    "Wei Liu, Li Chen, Yunfei Chen, Wenyi Zhang",
    "Accelerating Federated Learning via Momentum Gradient Descent",
    "IEEE Transactions on Parallel and Distributed Systems",
    2020,
    _arxiv("1910.03197"),
  ),
  "FedCM": Paper(
    "Jing Xu, Sen Wang, Liwei Wang, Andrew Chi-Chih Yao",
    "FedCM: Federated Learning with Client-level Momentum",
    "arXiv",
    2021,
    _arxiv("2106.10874"),
  ),
  "Cheng et al. 2024": Paper(
    "Ziheng Cheng, Xinmeng Huang, Pengfei Wu, Kun Yuan",
    "Momentum Benefits Non-IID Federated Learning Simply and Provably",
    "ICLR",
    2024,
    _arxiv("2306.16504"),
    "Its FedAvg-M is FedCM.",
  ),
  "FedADC": Paper(
    "Emre Ozfatura, Kerem Ozfatura, Deniz Gündüz",
    "FedADC: Accelerated Federated Learning with Drift Control",
    "ISIT",
    2021,
    _arxiv("2012.09102"),
  ),
  "FedDyn": Paper(
    "Durmus Alp Emre Acar, Yue Zhao, Ramon Matas Navarro, Matthew Mattina, Paul N. Whatmough, "
    "Venkatesh Saligrama",
    "Federated Learning Based on Dynamic Regularization",
    "ICLR",
    2021,
    _arxiv("2111.04263"),
  ),
  "AdaBest": Paper(
    "Farshid Varno, Marzie Saghayi, Laya Rafiee Sevyeri, Sharut Gupta, Stan Matwin, Mohammad Havaei",
    "AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation",
    "ECCV",
    2022,
    _arxiv("2204.13170"),
  ),
  "FedPAQ": Paper(
    "Amirhossein Reisizadeh, Aryan Mokhtari, Hamed Hassani, Ali Jadbabaie, Ramtin Pedarsani",
    "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging and Quantization",
    "AISTATS",
    2020,
    _arxiv("1909.13014"),
  ),
  "FedCOMGATE": Paper(
    "Farzin Haddadpour, Mohammad Mahdi Kamani, Aryan Mokhtari, Mehrdad Mahdavi",
    "Federated Learning with Compression: Unified Analysis and Sharp Guarantees",
    "AISTATS",
    2021,
    _arxiv("2007.01154"),
  ),
  "DiLoCo": Paper(
    "Arthur Douillard, Qixuan Feng, Andrei A. Rusu, Rachita Chhaparia, Yani Donchev, Adhiguna Kuncoro, "
    "Marc'Aurelio Ranzato, Arthur Szlam, Jiajun Shen",
    "DiLoCo: Distributed Low-Communication Training of Language Models",
    "arXiv",
    2023,
    _arxiv("2311.08105"),
    "Its outer step is FedNAG's server step.",
  ),
}

OPTIMIZATION: dict[str, Paper] = {
  "QHM": Paper(
    "Jerry Ma, Denis Yarats",
    "Quasi-hyperbolic momentum and Adam for deep learning",
    "ICLR",
    2019,
    _arxiv("1810.06801"),
    "FedGM is QHM at the server; the maps of `fedsnv`, `fedpid`, `fedasgd` and `fedtm` come from it.",
  ),
  "Lessard et al. 2016": Paper(
    "Laurent Lessard, Benjamin Recht, Andrew Packard",
    "Analysis and Design of Optimization Algorithms via Integral Quadratic Constraints",
    "SIAM Journal on Optimization",
    2016,
    _arxiv("1408.3595"),
    "`fedsnv`.",
  ),
  "An et al. 2018": Paper(
    "Wangpeng An, Haoqian Wang, Qingyun Sun, Jun Xu, Qionghai Dai, Lei Zhang",
    "A PID Controller Approach for Stochastic Optimization of Deep Networks",
    "CVPR",
    2018,
    _doi("10.1109/CVPR.2018.00889"),
    "`fedpid`.",
  ),
  "Kidambi et al. 2018": Paper(
    "Rahul Kidambi, Praneeth Netrapalli, Prateek Jain, Sham M. Kakade",
    "On the insufficiency of existing momentum schemes for Stochastic Optimization",
    "ICLR",
    2018,
    _arxiv("1803.05591"),
    "`fedasgd`.",
  ),
  "Van Scoy et al. 2018": Paper(
    "Bryan Van Scoy, Randy A. Freeman, Kevin M. Lynch",
    "The Fastest Known Globally Convergent First-Order Method for Minimizing Strongly Convex Functions",
    "IEEE Control Systems Letters",
    2018,
    _doi("10.1109/LCSYS.2017.2722406"),
    "`fedtm`.",
  ),
  "STORM": Paper(
    "Ashok Cutkosky, Francesco Orabona",
    "Momentum-Based Variance Reduction in Non-Convex SGD",
    "NeurIPS",
    2019,
    _arxiv("1905.10018"),
    "The rule `mvr` of `fedsgd` and `mime_mvr`.",
  ),
  "QSGD": Paper(
    "Dan Alistarh, Demjan Grubic, Jerry Li, Ryota Tomioka, Milan Vojnovic",
    "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding",
    "NeurIPS",
    2017,
    _arxiv("1610.02132"),
    "The quantiser of every compressed upload.",
  ),
  "Jamieson and Talwalkar 2016": Paper(
    "Kevin Jamieson, Ameet Talwalkar",
    "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
    "AISTATS",
    2016,
    _arxiv("1502.07943"),
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
    _arxiv("1812.01097"),
    "FEMNIST, Shakespeare and Sentiment140 by user.",
  ),
  "Hsu et al. 2020": Paper(
    "Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown",
    "Federated Visual Classification with Real-World Data Distribution",
    "ECCV",
    2020,
    _arxiv("2003.08082"),
    "Landmarks and iNaturalist by user; the LeNet-like CNN.",
  ),
  "He et al. 2016": Paper(
    "Kaiming He, Xiangyu Zhang, Shaoqing Ren, Jian Sun",
    "Deep Residual Learning for Image Recognition",
    "CVPR",
    2016,
    _arxiv("1512.03385"),
    "ResNet-20.",
  ),
  "Sandler et al. 2018": Paper(
    "Mark Sandler, Andrew Howard, Menglong Zhu, Andrey Zhmoginov, Liang-Chieh Chen",
    "MobileNetV2: Inverted Residuals and Linear Bottlenecks",
    "CVPR",
    2018,
    _arxiv("1801.04381"),
  ),
  "Dosovitskiy et al. 2021": Paper(
    "Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua Zhai, "
    "Thomas Unterthiner, Mostafa Dehghani, Matthias Minderer, Georg Heigold, Sylvain Gelly, Jakob Uszkoreit, "
    "Neil Houlsby",
    "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
    "ICLR",
    2021,
    _arxiv("2010.11929"),
    "ViT-B/16.",
  ),
}

SECTIONS: dict[str, dict[str, Paper]] = {
  "Papers with presets and claims": REPRODUCED,
  "Other federated algorithms": ALGORITHM_PAPERS,
  "Optimization and compression": OPTIMIZATION,
  "Data sets and models": DATA_AND_MODELS,
}
PAPERS: dict[str, Paper] = {
  name: paper for section in SECTIONS.values() for name, paper in section.items()
}


def page() -> str:
  """The text of `docs/papers.md`: all papers by section, each with the algorithms that cite it."""
  introduction = (
    'Code, docs and presets cite papers by the short names in bold, as in "GHBM, eq. 6". '
    "`python -m tff_momentum.papers` generates this page."
  )
  lines = ["# Papers", "", *textwrap.wrap(introduction, WIDTH)]
  for title, section in SECTIONS.items():
    lines += ["", f"## {title}", ""]
    for name, paper in section.items():
      lines += textwrap.wrap(
        _entry(name, paper),
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
      )
  return "\n".join(lines) + "\n"


def _entry(name: str, paper: Paper) -> str:
  users = [f"`{algorithm}`" for algorithm, info in ALGORITHMS.items() if info.paper == name]
  sentences = [
    f"**{name}**: {paper.authors}.",
    f"*{paper.title}*.",
    f"{paper.venue} {paper.year}.",
    f"<{paper.link}>." if paper.link else "",
    f"Algorithms: {', '.join(users)}." if users else "",
    paper.note,
  ]
  return " ".join(filter(None, sentences))


if __name__ == "__main__":
  print(page(), end="")
