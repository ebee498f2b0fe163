"""Commands are made from the functions that they run; `cli` lists them."""
