"""Workers that compute tasks: threads of this process, or Dask workers on one or more machines (``dask_pool``)."""

from lacuna.workers.pool import AHEAD, Pool, Reopened
from lacuna.workers.threads import WorkerPool, keep_freed_memory, one_thread, use_threads

__all__ = ["AHEAD", "Pool", "Reopened", "WorkerPool", "keep_freed_memory", "one_thread", "use_threads"]
