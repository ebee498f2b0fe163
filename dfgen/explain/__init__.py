"""Words for what went wrong: paths, columns, joins, labels, other libraries, speed."""
