"""Every paper that the library cites, by the short name that code, docs and presets use.

`python -m tff_momentum.papers` prints the page `docs/papers.md`; a test keeps the two equal.

    >>> PAPERS["SCAFFOLD"].link
    'https://arxiv.org/abs/1910.06378'
    >>> PAPERS["SCAFFOLD"].year
    2020
"""

import textwrap

from tff_momentum.cited_papers import DATA_AND_MODELS, OPTIMIZATION, Paper, arxiv
from tff_momentum.registry import ALGORITHMS

WIDTH = 110


REPRODUCED: dict[str, Paper] = {
  "GHBM": Paper(
    "Riccardo Zaccone, Carlo Masone, Marco Ciccone",
    "Communication-Efficient Heterogeneous Federated Learning with Generalized Heavy-Ball Momentum",
    "arXiv",
    2023,
    arxiv("2311.18578"),
    "Numbers of sections, equations and tables are those of the early preprint by these three authors; "
    "the later versions, with Sai Praneeth Karimireddy (TMLR 2025), number them differently.",
  ),
  "FedGBO": Paper(
    "Jed Mills, Jia Hu, Geyong Min, Rui Jin, Siwei Zheng, Jin Wang",
    "Accelerating Federated Learning with a Global Biased Optimiser",
    "IEEE Transactions on Computers",
    2022,
    arxiv("2108.09134"),
    "DOI 10.1109/TC.2022.3212631.",
  ),
  "FedGLOMO": Paper(
    "Rudrajit Das, Anish Acharya, Abolfazl Hashemi, Sujay Sanghavi, Inderjit S. Dhillon, Ufuk Topcu",
    "Faster Non-Convex Federated Learning via Global and Local Momentum",
    "UAI",
    2022,
    arxiv("2012.04061"),
  ),
  "FedGM": Paper(
    "Jianhui Sun, Xidong Wu, Heng Huang, Aidong Zhang",
    "On the Role of Server Momentum in Federated Learning",
    "AAAI",
    2024,
    arxiv("2312.12670"),
  ),
  "SCAFFOLD": Paper(
    "Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich, "
    "Ananda Theertha Suresh",
    "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
    "ICML",
    2020,
    arxiv("1910.06378"),
  ),
  "Mime": Paper(
    "Sai Praneeth Karimireddy, Martin Jaggi, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, "
    "Sebastian U. Stich, Ananda Theertha Suresh",
    "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning",
    "arXiv",
    2020,
    arxiv("2008.03606"),
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
    arxiv("1602.05629"),
    "The paper introduces FedAvg and FedSGD.",
  ),
  "FedProx": Paper(
    "Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar, Virginia Smith",
    "Federated Optimization in Heterogeneous Networks",
    "MLSys",
    2020,
    arxiv("1812.06127"),
  ),
  "FedMAX": Paper(
    "Wei Chen, Kartikeya Bhardwaj, Radu Marculescu",
    "FedMAX: Mitigating Activation Divergence for Accurate and Communication-Efficient Federated Learning",
    "ECML PKDD",
    2020,
    arxiv("2004.03657"),
  ),
  "Hsu et al. 2019": Paper(
    "Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown",
    "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
    "arXiv",
    2019,
    arxiv("1909.06335"),
    "The paper introduces FedAvgM and the Dirichlet split of labels.",
  ),
  "Reddi et al. 2021": Paper(
    "Sashank J. Reddi, Zachary Charles, Manzil Zaheer, Zachary Garrett, Keith Rush, Jakub Konečný, "
    "Sanjiv Kumar, H. Brendan McMahan",
    "Adaptive Federated Optimization",
    "ICLR",
    2021,
    arxiv("2003.00295"),
    "The paper introduces FedAdagrad, FedAdam and FedYogi.",
  ),
  "MFL": Paper(
    "Wei Liu, Li Chen, Yunfei Chen, Wenyi Zhang",
    "Accelerating Federated Learning via Momentum Gradient Descent",
    "IEEE Transactions on Parallel and Distributed Systems",
    2020,
    arxiv("1910.03197"),
  ),
  "FedCM": Paper(
    "Jing Xu, Sen Wang, Liwei Wang, Andrew Chi-Chih Yao",
    "FedCM: Federated Learning with Client-level Momentum",
    "arXiv",
    2021,
    arxiv("2106.10874"),
  ),
  "Cheng et al. 2024": Paper(
    "Ziheng Cheng, Xinmeng Huang, Pengfei Wu, Kun Yuan",
    "Momentum Benefits Non-IID Federated Learning Simply and Provably",
    "ICLR",
    2024,
    arxiv("2306.16504"),
    "Its FedAvg-M is FedCM. It introduces SCAFFOLD-M.",
  ),
  "FedADC": Paper(
    "Emre Ozfatura, Kerem Ozfatura, Deniz Gündüz",
    "FedADC: Accelerated Federated Learning with Drift Control",
    "ISIT",
    2021,
    arxiv("2012.09102"),
  ),
  "FedDyn": Paper(
    "Durmus Alp Emre Acar, Yue Zhao, Ramon Matas Navarro, Matthew Mattina, Paul N. Whatmough, "
    "Venkatesh Saligrama",
    "Federated Learning Based on Dynamic Regularization",
    "ICLR",
    2021,
    arxiv("2111.04263"),
  ),
  "AdaBest": Paper(
    "Farshid Varno, Marzie Saghayi, Laya Rafiee Sevyeri, Sharut Gupta, Stan Matwin, Mohammad Havaei",
    "AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation",
    "ECCV",
    2022,
    arxiv("2204.13170"),
  ),
  "FedPAQ": Paper(
    "Amirhossein Reisizadeh, Aryan Mokhtari, Hamed Hassani, Ali Jadbabaie, Ramtin Pedarsani",
    "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging and Quantization",
    "AISTATS",
    2020,
    arxiv("1909.13014"),
  ),
  "FedCOMGATE": Paper(
    "Farzin Haddadpour, Mohammad Mahdi Kamani, Aryan Mokhtari, Mehrdad Mahdavi",
    "Federated Learning with Compression: Unified Analysis and Sharp Guarantees",
    "AISTATS",
    2021,
    arxiv("2007.01154"),
  ),
  "FedACG": Paper(
    "Geeho Kim, Jinkyu Kim, Bohyung Han",
    "Communication-Efficient Federated Learning with Accelerated Client Gradient",
    "CVPR",
    2024,
    arxiv("2201.03172"),
  ),
  "FedNova": Paper(
    "Jianyu Wang, Qinghua Liu, Hao Liang, Gauri Joshi, H. Vincent Poor",
    "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
    "NeurIPS",
    2020,
    arxiv("2007.07481"),
  ),
  "Qu et al. 2022": Paper(
    "Zhe Qu, Xingyu Li, Rui Duan, Yao Liu, Bo Tang, Zhuo Lu",
    "Generalized Federated Learning via Sharpness Aware Minimization",
    "ICML",
    2022,
    arxiv("2206.02618"),
    "The paper introduces FedSAM and MoFedSAM.",
  ),
  "Caldarola et al. 2022": Paper(
    "Debora Caldarola, Barbara Caputo, Marco Ciccone",
    "Improving Generalization in Federated Learning by Seeking Flat Minima",
    "ECCV",
    2022,
    arxiv("2203.11834"),
    "The paper introduces FedSAM independently.",
  ),
  "FedExP": Paper(
    "Divyansh Jhunjhunwala, Shiqiang Wang, Gauri Joshi",
    "FedExP: Speeding Up Federated Averaging via Extrapolation",
    "ICLR",
    2023,
    arxiv("2301.09604"),
    "Also a transform, `--transform=fedexp`.",
  ),
  "FedInit": Paper(
    "Yan Sun, Li Shen, Dacheng Tao",
    "Understanding How Consistency Works in Federated Learning via Stage-wise Relaxed Initialization",
    "NeurIPS",
    2023,
    arxiv("2306.05706"),
    "Also a transform, `--transform=fedinit`.",
  ),
  "FedSpeed": Paper(
    "Yan Sun, Li Shen, Tiansheng Huang, Liang Ding, Dacheng Tao",
    "FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization Accuracy",
    "ICLR",
    2023,
    arxiv("2302.10429"),
  ),
  "FedLion": Paper(
    "Zhiwei Tang, Tsung-Hui Chang",
    "FedLion: Faster Adaptive Federated Optimization with Fewer Communication",
    "ICASSP",
    2024,
    arxiv("2402.09941"),
  ),
  "FedAdamW": Paper(
    "Junkang Liu, Fanhua Shang, Hongying Liu, Yuxuan Tian, Yuanyuan Liu, Jin Liu, Kewen Zhu, Zhouchen Lin",
    "FedAdamW: A Communication-Efficient Optimizer with Convergence and Generalization Guarantees for "
    "Federated Large Models",
    "AAAI",
    2026,
    arxiv("2510.27486"),
  ),
  "FedMuon": Paper(
    "Junkang Liu, Fanhua Shang, Junchao Zhou, Hongying Liu, Yuanyuan Liu, Jin Liu",
    "FedMuon: Accelerating Federated Learning with Matrix Orthogonalization",
    "arXiv",
    2025,
    arxiv("2510.27403"),
    "Another method of this name (arXiv 2509.26337) is not in the library.",
  ),
  "DiLoCo": Paper(
    "Arthur Douillard, Qixuan Feng, Andrei A. Rusu, Rachita Chhaparia, Yani Donchev, Adhiguna Kuncoro, "
    "Marc'Aurelio Ranzato, Arthur Szlam, Jiajun Shen",
    "DiLoCo: Distributed Low-Communication Training of Language Models",
    "arXiv",
    2023,
    arxiv("2311.08105"),
    "Its outer step is FedNAG's server step.",
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
