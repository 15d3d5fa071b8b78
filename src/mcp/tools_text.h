/* SPDX-License-Identifier: Apache-2.0
 *
 * tools.json, as it was when this was built. */
#ifndef MCP_TOOLS_TEXT_H
#define MCP_TOOLS_TEXT_H

#include <stddef.h>

extern const unsigned char mcp_tools_text[];
extern const size_t mcp_tools_size;

#endif
