"""Callbacks that watch and save a fit."""
