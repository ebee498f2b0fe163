"""`dfgen bench`: how fast batches come from the user's own files, and what limits them."""
