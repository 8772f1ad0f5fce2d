"""The loader behind millrace.DataLoader: plan/ finds what can run natively, engines/ run it, iterator.py hands it out."""
