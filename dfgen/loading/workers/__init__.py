"""Those who make samples: threads, and processes behind threads."""
