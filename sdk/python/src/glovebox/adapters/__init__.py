# SPDX-License-Identifier: Apache-2.0
"""glovebox as a tool of agent frameworks. Each module needs its framework, and nothing else does:

    smolagents      GloveboxExecutor, for CodeAgent(executor=...)
    langchain       python_tool(), a StructuredTool
    openai_agents   python_tool(), a FunctionTool
    pydantic_ai     python_tool(), a Tool

What the code does wrong is told to the model; an exception means that nothing could be run.
"""
