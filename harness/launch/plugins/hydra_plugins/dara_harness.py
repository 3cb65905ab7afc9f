"""What Hydra finds of the harness: the sweeper that knows studies, and the two launchers.

Hydra accepts plug-ins from a package named ``hydra_plugins`` alone; ``harness/run.py`` puts this folder on the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class MatrixSweeper(Sweeper):
    """Expands studies and sweeps; leaves composing, deduplicating and starting to the launcher."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from hydra.core.plugins import Plugins

        self._loader = hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        from harness.matrix import expand

        return self._launcher.launch(expand(arguments, self._loader), initial_job_idx=0)


class _MatrixLauncher(Launcher):
    """Composes every job, drops duplicates, and hands the runs to ``harness.launch``."""

    place: str

    def __init__(self, **options: Any) -> None:
        self._options = options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._loader = hydra_context.config_loader
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from harness.compose import Composer
        from harness.launch.start import start
        from harness.matrix import unique_runs

        runs, duplicates = unique_runs(job_overrides, Composer(self._loader))
        code = start(
            runs,
            duplicates=duplicates,
            place=self.place,
            options=dict(OmegaConf.to_container(OmegaConf.create(self._options), resolve=True)),  # type: ignore[arg-type]
            dry_run=bool(self._config.dry_run),
            retry=bool(self._config.retry),
        )
        if code:
            raise SystemExit(code)
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=None) for _ in runs]


class PoolLauncher(_MatrixLauncher):
    place = "pool"


class SlurmLauncher(_MatrixLauncher):
    place = "slurm"
