"""The checkpoints of a verl run on the disk: which is the last whole one, what is exported, what is dropped.

checkpoints/global_step_<n>/actor/model_world_size_<w>_rank_<r>.pt ...   verl's shards, data.pt, the trainer's state
checkpoints/latest_checkpointed_iteration.txt                            verl's mark of a whole checkpoint
checkpoints/exports/<n>/                                                 Hugging Face model of an evaluation step
checkpoints/huggingface                                                  link to the export of the last step
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from harness.errors import UserError

STEPS_FILE = "verl/steps.jsonl"
STOP_FILE = "verl/stop"
MARK = "latest_checkpointed_iteration.txt"
EXPORTS = "exports"
FINAL = "huggingface"
MARGIN = 1.2
"""Free space asked for before a checkpoint is written, as a multiple of the size of the one before."""

_NO_LINKS = frozenset({errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_STEP = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"model_world_size_(\d+)_rank_\d+\.pt")


def latest_step(checkpoints: Path) -> int:
    """Step of the last whole checkpoint, 0 without one."""
    try:
        step = int((checkpoints / MARK).read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return 0
    return step if (checkpoints / f"global_step_{step}").is_dir() else 0


def require_world_size(checkpoints: Path, world_size: int) -> None:
    """Raise UserError when the last checkpoint was written by another number of workers."""
    step = latest_step(checkpoints)
    if step == 0:
        return
    folder = checkpoints / f"global_step_{step}" / "actor"
    sizes = {int(match.group(1)) for path in _names(folder) if (match := _SHARD.fullmatch(path))}
    if sizes and sizes != {world_size}:
        found = ", ".join(map(str, sorted(sizes)))
        raise UserError(
            f"{folder}: the checkpoint was written by {found} worker(s), this run has {world_size}; set engine.nodes x "
            f"engine.gpus_per_node = {found}, or move {checkpoints} away to start from step 0"
        )
    shards = [path for path in _names(folder) if _SHARD.fullmatch(path)]
    if len(shards) != world_size:
        raise UserError(
            f"{folder}: {len(shards)} of {world_size} model shards are there; restore them, or move "
            f"{checkpoints / MARK} away to start from step 0"
        )


def repair(checkpoints: Path) -> int:
    """Drop what a killed attempt left half written; returns the step to continue from.

    When the mark names a folder that is gone, the newest other checkpoint that has its data order is marked."""
    step = latest_step(checkpoints)
    if step == 0 and (checkpoints / MARK).exists():
        whole = [number for number, path in _steps(checkpoints) if (path / "data.pt").exists()]
        step = max(whole, default=0)
        (checkpoints / MARK).unlink() if step == 0 else (checkpoints / MARK).write_text(str(step), encoding="ascii")
    for number, path in _steps(checkpoints):
        if number > step:
            shutil.rmtree(path, ignore_errors=True)
    return step


def require_space(checkpoints: Path) -> None:
    """Raise UserError when the next checkpoint, taken to be as large as the last, does not fit on the disk."""
    step = latest_step(checkpoints)
    if step == 0:
        return
    needed = int(MARGIN * folder_bytes(checkpoints / f"global_step_{step}"))
    free = shutil.disk_usage(checkpoints).free
    if free < needed:
        raise UserError(
            f"{checkpoints}: a checkpoint needs about {needed / 1e9:.2f} GB, {free / 1e9:.2f} GB are free; free space "
            "there (engine.options.keep_exports bounds the exports) and start the run again, it continues from step "
            f"{step}"
        )


def export(checkpoints: Path, step: int, *, keep: bool, final: bool, own_tokenizer: bool = False) -> None:
    """Take the Hugging Face model that verl wrote with checkpoint ``step`` into the exports (``keep``), or drop its
    weights. The folder appears whole, and until it does the checkpoint has the weights: a killed export is made again.
    Without hard links the weights are on the disk twice for that while. ``own_tokenizer``: the run gave verl a
    tokenizer that is not the one of its kind of model."""
    written = checkpoints / f"global_step_{step}" / "actor" / "huggingface"
    target = checkpoints / EXPORTS / str(step)
    weights = [written / name for name in _names(written) if name.endswith((".safetensors", ".bin"))]
    if keep and weights and not all(_same(path, target / path.name) for path in weights):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside, old = target.with_name(f".{step}.tmp"), target.with_name(f".{step}.old")
        for folder in (aside, old):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(written, aside, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
        for path in weights:
            _link(path, aside / path.name)
        if own_tokenizer:
            keep_tokenizer_class(aside)
        if target.exists():  # of an attempt that went back to an earlier step
            os.replace(target, old)
        os.replace(aside, target)
        shutil.rmtree(old, ignore_errors=True)
    for path in weights:
        path.unlink()
    if final and target.is_dir():
        link = checkpoints / FINAL
        fresh = checkpoints / f".{FINAL}.tmp"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path(EXPORTS) / str(step), target_is_directory=True)
        os.replace(fresh, link)


def keep_tokenizer_class(folder: Path) -> None:
    """Have AutoTokenizer load the folder's tokenizer as it was saved: transformers 5 puts a class of its own in the
    place of the one that is named for a Qwen2 model, unless ``auto_map`` names it too (and ``trust_remote_code`` is
    off: nothing here is code)."""
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["auto_map"] = {"AutoTokenizer": [content["tokenizer_class"]] * 2}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def prune(
    checkpoints: Path, keep_checkpoints: int, keep_exports: int | None, keep_for_evaluation: Collection[int] = ()
) -> None:
    """Drop all but the newest checkpoints, and all but the newest exports (None: keep all of them) and those that an
    evaluation wants."""
    stored = sorted(_steps(checkpoints), reverse=True)
    for _, path in stored[max(1, keep_checkpoints) :]:
        shutil.rmtree(path, ignore_errors=True)
    if keep_exports is not None:
        exports = sorted((int(name) for name in _names(checkpoints / EXPORTS) if name.isdigit()), reverse=True)
        for step in exports[max(1, keep_exports) :]:
            if step not in keep_for_evaluation:
                shutil.rmtree(checkpoints / EXPORTS / str(step), ignore_errors=True)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _same(written: Path, exported: Path) -> bool:
    """Whether a file of weights was taken into an export already."""
    try:
        a, b = written.stat(), exported.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(a, b) or (a.st_size, a.st_mtime_ns) == (b.st_size, b.st_mtime_ns)


def _link(source: Path, target: Path) -> None:
    """The same file under a second name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(source, target)


def _steps(checkpoints: Path) -> list[tuple[int, Path]]:
    names = ((_STEP.fullmatch(name), name) for name in _names(checkpoints))
    return [(int(match.group(1)), checkpoints / name) for match, name in names if match]


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []
