"""Which reward starves? Any log of rollouts, read as groups and channels, measured, and replayed through every method.

command.py     the command `diagnose`
sources.py     files, folders, compression        columns.py    what is group, step, channel
jsonlines.py, csvfile.py, parquet.py               readers: file -> chunks of numbers; texts are never kept
lines.py       the lines of a part of a file
cells.py       cells to numbers, labels to digests rows.py       all responses as arrays; which attempt counts
reading.py     the whole: files -> Log             measure.py    one step's batch -> StepReport
replay.py      every method on the same batches    findings.py   the result in words
report.py      all steps together -> Diagnosis     text.py, page.py, plot.py   how it is shown
"""
