"""Pictures that a dataset opens itself: decoded by the engine, when and where somebody looks at them."""
