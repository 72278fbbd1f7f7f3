"""The paper in one command: an experiment file becomes stores, systems, tables and findings."""

from lacuna.reproducing.running import Reproduction, reproduce
from lacuna.reproducing.schema import ExperimentFile, read_experiment

__all__ = ["ExperimentFile", "Reproduction", "read_experiment", "reproduce"]
