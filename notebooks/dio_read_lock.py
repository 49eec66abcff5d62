# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # The 2011 read lock
# XFS of 2.6.39 took the iolock exclusively for every direct read, to look at the page cache, and demoted it at once.
# The exclusive lock is granted only when no read is in flight: one read at a time on a file.  What does it cost?

# %%
from fssim.engine import run
from fssim.experiment.job import run_experiment
from fssim.experiment.output import records
from fssim.filesystem import load_filesystem
from fssim.profile import load_machine
from fssim.workload.sysbench import build_system

# %% [markdown]
# ## The protocol before and after
# The text that the simulators run is the text in `models/filesystems/xfs.py`.

# %%
before = load_filesystem("xfs-2.6.39")
after = load_filesystem("xfs-2.6.39+shared-read-lock")
machine = load_machine("engel-2011")
print(before.read.disassemble(path_ns=machine.host.path_ns))

# %% [markdown]
# ## One cell
# Sixteen threads read one file in blocks of 4 KiB.

# %%
for filesystem in (before, after):
    system = build_system(filesystem, machine, "seqrd", 4096, 16, ios=4000, warmup_ios=500, seed=1)
    result = run(system)
    print(f"{filesystem.name:30s} {result.iops:10,.0f} IOPS")
    for category, spent in sorted(result.time_by_category_ns.items(), key=lambda item: -item[1])[:4]:
        print(f"    {category:32s} {spent / result.ios / 1000:8.1f} µs of an I/O")

# %% [markdown]
# ## A matrix, set against the measurement

# %%
report = run_experiment("dio_read_lock", threads=[1, 4, 16], block_sizes=[512, 4096], patterns=["seqrd"], jobs=1)
for record in records(report):
    print(record)
