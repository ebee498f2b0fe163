"""Any frame or table to Arrow, once."""
