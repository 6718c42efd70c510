"""What knows a framework beside torch.py: one file each."""
