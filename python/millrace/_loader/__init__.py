"""The loader behind millrace.DataLoader.

plan/ finds what can run natively, engines/ make batches, iterator.py hands them out, states/ says where.
"""
