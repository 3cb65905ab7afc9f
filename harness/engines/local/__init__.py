"""Engine ``local``: one process, one policy, CPU or one GPU. ``train(config, run)`` trains a run or continues it."""
