"""Engines that complete chats: ``transformers``, ``endpoint``, ``vllm`` and, for pocket models, ``policy``."""
