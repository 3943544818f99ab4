"""Generic types of LangGraph and LangChain; parameters that only a user's types would fill are open."""

from typing import Any

from langchain_core.runnables import Runnable
from langgraph.cache.base import BaseCache
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

Graph = CompiledStateGraph[Any, Any, Any, Any]
Builder = StateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any]
Cache = BaseCache[Any]
Channel = BaseChannel[Any, Any, Any]
AnyRunnable = Runnable[Any, Any]
