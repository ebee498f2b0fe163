"""Rows of .npy and HDF5 files."""
