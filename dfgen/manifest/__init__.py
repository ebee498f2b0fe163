"""Tables: what a manifest is, how it is read and written, and where labels come from."""
