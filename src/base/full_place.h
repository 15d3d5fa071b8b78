/* SPDX-License-Identifier: Apache-2.0
 *
 * Which writable places of a box have no room left, of bytes or of files: 0, or a sum of these. */
#ifndef BASE_FULL_PLACE_H
#define BASE_FULL_PLACE_H

enum full_place {
        FULL_SOMEWHERE = 1 << 0, /* in a place that has no limit of its own in the policy, or it is not known where */
        FULL_TMP = 1 << 1,
        FULL_SHM = 1 << 2,
        FULL_WORKSPACE = 1 << 3,
        FULL_CODE = 1 << 4, /* /run/glovebox, where the code of a session's programs is */
        FULL_ALL = (1 << 5) - 1,
};

#endif
