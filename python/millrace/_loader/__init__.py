"""The implementation of millrace.DataLoader.

dataloader.py ─▶ plan/ ─▶ EngineSpec ─▶ iterator.py ─▶ engine (engines/) ─▶ Delivered ─▶ states/ ─▶ the loop

plan/ decides what can run natively and gives the engine spec; engine.py is the protocol of all engines;
iterator.py submits index lists and returns batches; states/ keeps the position; tuning/ sets the limits.
"""
