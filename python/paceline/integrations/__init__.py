"""The modules for single frameworks, beside torch.py: one file each."""
