/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIB_SESSION_H
#define LIB_SESSION_H

#include "lib/handles.h"

#include "engine/session.h"
#include "policy/template.h"

struct gb_session {
        struct session *session;
        struct policy *policy;
        struct tables *tables;
};
DEFINE_CLEANUP(gb_session, gb_session_close)

#endif
