"""What the trainer hands to the run store: steps, evaluations, rollouts, and which checkpoints stay.

The trainer is a process of Ray's; the process that holds the run's lock and writes its metrics is another. Steps are
therefore handed over as lines of ``verl/steps.jsonl``, on the disk before the step's checkpoint is: a step that
survives as a checkpoint is never missing from the metrics.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.engines.verl import storage
from harness.engines.verl.data import TOKENIZER
from harness.engines.verl.naming import STEP_KEYS, place_of
from harness.store.files import make_folder, write_atomically


class StopRequestedError(RuntimeError):
    """The run was asked to stop; a checkpoint of the last step is on the disk."""


@dataclass(frozen=True)
class Settings:
    """The section ``harness`` of the verl configuration.

    run: folder of the run.  attempt: number of the attempt.  channels: reward channels in order.  benchmark: name of
    the held-out evaluation.  evaluate_every, rollouts_every, keep_checkpoints,
    keep_exports: as in the run's configuration.  keep_for_evaluation: steps whose export is made and stays.
    """

    run: str
    attempt: int
    channels: tuple[str, ...]
    benchmark: str
    steps: int
    evaluate_every: int
    rollouts_every: int
    keep_checkpoints: int
    keep_exports: int | None
    keep_for_evaluation: tuple[int, ...]
    temperature: float
    top_p: float
    length_exceeded: bool


class Recorder:
    """One attempt's side of the hand-over."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.run = Path(settings.run)
        self.checkpoints = self.run / "checkpoints"
        self._saved = 0

    @classmethod
    def of(cls, config: Any) -> Recorder | None:
        """None when the configuration has no section ``harness``: verl was started without this engine."""
        section = config.get("harness", None)
        if section is None:
            return None
        values = {key: section[key] for key in Settings.__dataclass_fields__}
        values["channels"] = tuple(str(name) for name in section["channels"])
        values["keep_for_evaluation"] = tuple(int(step) for step in section["keep_for_evaluation"])
        return cls(Settings(**values))

    # Called by the trainer, in the order of a step.

    def before_training(self, trainer: Any) -> None:
        """Evaluate first where the evaluation of this step is not stored yet (a fresh run, or one killed before it),
        and export first where the attempt before was killed between a checkpoint and its export."""
        step = trainer.global_steps
        self._export(step)
        due = step % self.settings.evaluate_every == 0 or step >= self.settings.steps
        trainer.config.trainer.val_before_train = bool(due and not self._evaluation(step).exists())

    def after_step(self, step: int, metrics: Mapping[str, Any], seconds: float) -> None:
        """Hand over the metrics of a step."""
        row = {name: _number(metrics[key]) for name, key in STEP_KEYS.items() if key in metrics}
        for key, value in metrics.items():
            if key.startswith(("reward/", "density/", "density_before_filter/", "energy/", "weight/", "failure/")):
                row[key] = _number(value)
            elif key.startswith(("cap_hit/", "missing/", "filter/")):
                row[key] = int(value)
        if self.settings.length_exceeded and "reward/length" in row:
            row["exceed"] = 1.0 - float(row["reward/length"] or 0.0)
        row["responses_in_step"] = int(metrics["responses_in_step"])
        row["seconds"] = round(seconds, 4)
        self._append({"attempt": self.settings.attempt, "step": step, "values": row})

    def before_checkpoint(self, step: int) -> None:
        storage.require_space(self.checkpoints)

    def after_checkpoint(self, step: int) -> None:
        """Export, then drop what is no longer kept: at no moment is there less than one whole checkpoint."""
        self._saved = step
        self._export(step)

    def end_of_step(self, trainer: Any) -> None:
        """A checkpoint where an evaluation wants one or the run was asked to stop; then it stops here."""
        step = trainer.global_steps
        if step >= self.settings.steps:
            return
        stopping = (self.run / storage.STOP_FILE).exists()
        if (stopping or step in self.settings.keep_for_evaluation) and self._saved != step:
            trainer._save_checkpoint()
        if stopping:
            raise StopRequestedError(f"asked to stop after step {step}")

    def evaluation(self, step: int, infos: Mapping[str, list[Any]]) -> None:
        """Store the held-out evaluation: means over the responses, by channel; None (missing) left out."""
        keys = [*self.settings.channels, *(key for key in infos if key.startswith("failure/"))]
        metrics = {key if "/" in key else f"reward/{key}": _mean(infos.get(key, [])) for key in keys}
        metrics["reward/score"] = _mean(infos.get("score", infos.get("reward", [])))
        if "response_tokens" in infos:
            metrics["response_length"] = _mean(infos["response_tokens"])
        results = {
            "schema": 1,
            "benchmark": self.settings.benchmark,
            "step": step,
            "n": len(infos.get("reward", [])),
            "metrics": metrics,
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "samples": 1,
        }
        path = self._evaluation(step)
        make_folder(path.parent)
        write_atomically(path, (json.dumps(results, indent=1) + "\n").encode())

    def wants_rollouts(self, step: int) -> bool:
        return self.settings.rollouts_every > 0 and step % self.settings.rollouts_every == 0

    def rollouts(self, step: int, batch: Any, tokenizer: Any, penalties: Mapping[str, float]) -> None:
        """rollouts/<step>.jsonl: verl's fields, the channels, the response's number of tokens and advantage, and where
        the method reads it what the KL term added to the summed reward (``reward_kl``)."""
        import transfer_queue as tq

        from harness.engines.verl.fields import reward_infos

        rows = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        rows.sort(key=lambda row: place_of(batch.keys[row]))
        fields = ["prompts", "responses", "rm_scores", "reward_model", "advantages"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        prompts, responses = data["prompts"].unbind(), data["responses"].unbind()
        scores, references = data["rm_scores"].unbind(), list(data["reward_model"])
        advantages = data["advantages"].unbind()
        infos = reward_infos(batch.keys, batch.partition_id)
        lines = []
        for row in rows:
            reference = getattr(references[row], "data", references[row])
            line = {
                "step": step,
                "uid": place_of(batch.keys[row])[0],
                "attempt": self.settings.attempt,
                "input": tokenizer.decode(prompts[row], skip_special_tokens=True),
                "output": tokenizer.decode(responses[row], skip_special_tokens=True),
                "gts": reference.get("ground_truth"),
                "score": float(scores[row].sum()),
                **{name: _number(infos[row][name]) for name in self.settings.channels},
                "response_tokens": len(responses[row]),
                "advantage": float(advantages[row][0]),
                **({"reward_kl": penalties[batch.keys[row]]} if batch.keys[row] in penalties else {}),
            }
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        folder = self.run / "rollouts"
        make_folder(folder)
        write_atomically(folder / f"{step}.jsonl", "".join(lines).encode())

    def _export(self, step: int) -> None:
        settings = self.settings
        wanted = step % settings.evaluate_every == 0 or step >= settings.steps or step in settings.keep_for_evaluation
        own = (self.run / TOKENIZER).is_dir()
        storage.export(self.checkpoints, step, keep=wanted, final=step >= settings.steps, own_tokenizer=own)
        storage.prune(self.checkpoints, settings.keep_checkpoints, settings.keep_exports, settings.keep_for_evaluation)

    def _evaluation(self, step: int) -> Path:
        return self.run / "evals" / self.settings.benchmark / f"{step}.json"

    def _append(self, entry: Mapping[str, Any]) -> None:
        path = self.run / storage.STEPS_FILE
        make_folder(path.parent)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _number(value: Any) -> float | None:
    """A finite float, or None."""
    if value is None:
        return None
    number = float(value)
    return number if np.isfinite(number) else None


def _mean(values: list[Any]) -> float | None:
    present = [float(value) for value in values if value is not None and np.isfinite(float(value))]
    return float(np.mean(present)) if present else None
