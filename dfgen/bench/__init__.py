"""`dfgen bench`: how fast batches come from the user's own files, and what limits them.

run.py puts it together: job.py chooses the files, rates.py measures in turn, stages.py and peers.py
are what is measured, advice.py says in words what the figures mean, report.py shows them.
"""
