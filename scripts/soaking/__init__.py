"""The parts of scripts/soak. Nothing here is of use to anything else."""
