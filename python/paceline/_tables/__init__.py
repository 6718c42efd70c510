"""Files of embedding tables for other programs. The tables themselves are in paceline.embedding."""
