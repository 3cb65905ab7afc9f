"""Every data set: where it comes from, at which revision, with which checksums and how many rows. The one place.

A value that could not be established is None and says so where it is shown: ``fetch`` then resolves it, records it in
the lock file of the data folder and ``verify`` holds the data to that. To pin such a value for everyone, copy it from
the lock file into this file.

The commits of the hub are those at which several public projects, independent of each other, load these data sets
(docs/data.md); SHA-256 stands where one of them states it for that commit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source. ``path`` may hold wildcards where the publisher's file name carries a shard number.

    ``sha256`` and ``git_blob`` (the SHA-1 that git gives the content) are None where not known.
    """

    split: str
    path: str
    rows: int | None
    sha256: str | None = None
    git_blob: str | None = None


@dataclass(frozen=True)
class Source:
    """``kind`` is ``hub`` (a data set of the Hugging Face hub) or ``repository`` (a file tree on GitHub)."""

    kind: str
    name: str
    revision: str | None


@dataclass(frozen=True)
class Copy:
    """The same data as published elsewhere, byte for byte known. Accepted in the data folder in place of the source."""

    file_name: str
    sha256: str
    rows: int
    origin: str
    note: str = ""


@dataclass(frozen=True)
class Dataset:
    """``task`` is the reward task of the rows; the splits of the files are the names that ``load`` takes.

    ``references``: ``published`` keeps a reference text as it is (training data), ``normalised`` brings it into the
    form that the evaluation compares (benchmarks; see harness/tasks/references.py).
    """

    name: str
    task: str
    references: str
    title: str
    source: Source
    files: tuple[File, ...]
    licence: str
    citation: str
    copies: tuple[Copy, ...] = ()
    note: str = ""


_DEEPSCALER_REPOSITORY = "github.com/agentica-project/deepscaler@95ef74ffee001cce89463f2d61dfdce1d03576c1"
_QWEN_REPOSITORY = "github.com/QwenLM/Qwen2.5-Math@a45202bd16f1ec06f433442dc1152d0074773465"

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="rlla_4k",
            task="tool_calling",
            references="published",
            title="ToolRL rlla_4k, tool calling",
            source=Source("repository", "qiancheng0/ToolRL", "8cee13ec0ca72f0461da372a93a6fd8140dbb840"),
            files=(
                File(
                    "train",
                    "dataset/rlla_4k/train.parquet",
                    3920,
                    git_blob="0ddc730c556e4d26449dbdb55a1b28be824a8bfe",
                ),
                File(
                    "validation",
                    "dataset/rlla_4k/test.parquet",
                    80,
                    sha256="f7f300ebe755fd04985c83e18097d5a94a08619d72809fe06128ed3f00da7554",
                ),
            ),
            licence="Apache-2.0 (repository); derived from ToolACE (Apache-2.0), Hammer-masked and xLAM (CC-BY-4.0)",
            citation="Qian et al., ToolRL: Reward is All Tool Learning Needs, arXiv 2504.13958",
        ),
        Dataset(
            name="deepscaler",
            task="maths",
            references="published",
            title="DeepScaleR-Preview, maths training",
            source=Source("hub", "agentica-org/DeepScaleR-Preview-Dataset", "b6ae8c60f5c1f2b594e2140b91c49c9ad0949e29"),
            files=(File("train", "deepscaler.json", 40_315),),
            licence="MIT",
            citation="Luo et al., DeepScaleR: Surpassing O1-Preview with a 1.5B Model by Scaling RL, 2025",
        ),
        Dataset(
            name="deepscaler_1209",
            task="maths",
            references="published",
            title="1,209 rows of DeepScaleR-Preview, for trials",
            source=Source("repository", "ypwang61/One-Shot-RLVR", "21ed529ec90002597c92aee957af1dd8166bb66c"),
            files=(
                File(
                    "train",
                    "data/train/one_shot_rlvr/dsr_sub.parquet",
                    1209,
                    sha256="bce5945e5666d5b82f1554b0a18203a88a0209f82fa724e5bfdfc17cc9a1aea6",
                ),
            ),
            licence="Apache-2.0 (repository); upstream DeepScaleR-Preview MIT",
            citation="Wang et al., Reinforcement Learning for Reasoning in LLMs with One Training Example, "
            "arXiv 2504.20571",
        ),
        Dataset(
            name="math500",
            task="maths",
            references="normalised",
            title="MATH-500, test",
            source=Source("hub", "HuggingFaceH4/MATH-500", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be"),
            files=(
                File(
                    "test",
                    "test.jsonl",
                    500,
                    sha256="35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
                ),
            ),
            licence="MIT",
            citation="Hendrycks et al., arXiv 2103.03874; the split of Lightman et al., arXiv 2305.20050",
            note="byte for byte math_splits/test.jsonl of openai/prm800k",
        ),
        Dataset(
            name="aime_2024",
            task="maths",
            references="normalised",
            title="AIME 2024",
            source=Source("hub", "HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"),
            files=(
                File(
                    "test",
                    "data/train-00000-of-00001.parquet",
                    30,
                    sha256="26139847601a5037c237d5928b195e7260ca8074cf4f264b794af42847f79ccf",
                ),
            ),
            copies=(
                Copy(
                    "aime.json",
                    "03fd341fee10fb71cf906be4eb3042081f314c4d16077489e41f9375085d20d2",
                    30,
                    _DEEPSCALER_REPOSITORY,
                ),
                Copy(
                    "test.jsonl",
                    "af2b8bd2aa911b6333ad0df32f3ca05c7ae8ed10f1731f4372c8ae26990bf7ac",
                    30,
                    _QWEN_REPOSITORY,
                ),
            ),
            licence="not stated on the hub; problem texts copyright MAA",
            citation="American Invitational Mathematics Examination 2024, Mathematical Association of America",
            note="the hub's split is called train; here it is test",
        ),
        Dataset(
            name="amc_2022_2023",
            task="maths",
            references="normalised",
            title="AMC 12 2022 and 2023",
            source=Source("hub", "AI-MO/aimo-validation-amc", "69d78a4a2c840e82d69af6bc742bda09005f6316"),
            files=(
                File(
                    "test",
                    "data/train-00000-of-00001.parquet",
                    83,
                    sha256="4de056fd006062cee46e3900727dd5d00094b8592ed0bfd6b5dfae2267f72dd7",
                ),
            ),
            copies=(
                Copy(
                    "amc.json",
                    "2666a217cb566efb77ebfce61841d5d8855d4b4be89633b29df3a43dcfd942dd",
                    83,
                    _DEEPSCALER_REPOSITORY,
                ),
            ),
            licence="Apache-2.0; problem texts copyright MAA",
            citation="AI-MO, aimo-validation-amc; American Mathematics Competitions 2022 and 2023",
            note="answers are stored as floats (142.0) and become integer strings",
        ),
        Dataset(
            name="minerva",
            task="maths",
            references="normalised",
            title="Minerva Math (OCWCourses)",
            source=Source("hub", "math-ai/minervamath", "ee46ddc498933b1977577953250ca5c66be64f96"),
            files=(File("test", "test.jsonl", 272),),
            copies=(
                Copy(
                    "minerva.json",
                    "ba6147602d8b2f9071ecf578e29aa1100c634bdfa982d4c6745c2bd3077554ba",
                    272,
                    _DEEPSCALER_REPOSITORY,
                ),
                Copy(
                    "test.jsonl",
                    "0e656b430d3a0a1dab6aa853f453ba3805e28e2cabe4fc72486a897cc09d8ba2",
                    272,
                    _QWEN_REPOSITORY,
                    "answers are the last box of each solution; another order",
                ),
            ),
            licence="not stated on the hub; problems from MIT OpenCourseWare, CC BY-NC-SA 4.0 (non-commercial)",
            citation="Lewkowycz et al., Solving Quantitative Reasoning Problems with Language Models, arXiv 2206.14858",
        ),
        Dataset(
            name="olympiadbench",
            task="maths",
            references="normalised",
            title="OlympiadBench, OE_TO_maths_en_COMP",
            source=Source("hub", "Hothan/OlympiadBench", "91184b52131e7fc9455fef848035173aea8cc01a"),
            files=(File("test", "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet", 674),),
            copies=(
                Copy(
                    "test.jsonl",
                    "bb8c1e38a16ea9eacb77530315a674d883f267fbff79183effc53681b4fcc416",
                    675,
                    _QWEN_REPOSITORY,
                    "the 675 rows of before 2024-07-17; the paper counts 674",
                ),
                Copy(
                    "olympiad_bench.json",
                    "c1e099f7b5830fb843fa52d48d0af8a296a94745cb5981b4ce539dd18af6f8ee",
                    675,
                    _DEEPSCALER_REPOSITORY,
                    "the 675 rows of before 2024-07-17; the paper counts 674",
                ),
            ),
            licence="Apache-2.0 (hub), MIT (repository)",
            citation="He et al., OlympiadBench, arXiv 2402.14008",
            note="the hub's split is called train; here it is test",
        ),
    )
}

MATHS_BENCHMARKS = ("math500", "aime_2024", "amc_2022_2023", "minerva", "olympiadbench")
