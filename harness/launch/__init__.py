"""Placing runs: worker processes on this machine (``pool``) or jobs of a cluster (``slurm``)."""
