"""The paper in one command: an experiment file becomes stores, systems, tables and findings."""

from lacuna.reproduction.experiment import ExperimentFile, read_experiment
from lacuna.reproduction.pipeline import Reproduction, reproduce

__all__ = ["ExperimentFile", "Reproduction", "read_experiment", "reproduce"]
