/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each value of the tree must have a place in the text. */
static void check_marks(const struct yaml_doc *doc, const json_t *node)
{
        const char *key;
        json_t *value;
        size_t i;

        json_object_foreach((json_t *)node, key, value) {
                const struct yaml_mark *m = yaml_doc_mark(doc, node, key, 0);
                if (m->line == 0 || m->key_line == 0 || (m->text == NULL) != (json_is_object(value) || json_is_array(value)))
                        abort();
                check_marks(doc, value);
        }
        json_array_foreach(node, i, value) {
                const struct yaml_mark *m = yaml_doc_mark(doc, node, NULL, i);
                if (m->line == 0 || (m->text == NULL) != (json_is_object(value) || json_is_array(value)))
                        abort();
                check_marks(doc, value);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_yaml_doc_ struct yaml_doc *doc = NULL;
        struct yaml_where where;

        int r = yaml_parse((const char *)data, size, &doc, &where);
        if (r < 0) {
                if (doc || where.line == 0 || where.column == 0)
                        abort();
                return 0;
        }
        check_marks(doc, doc->root);
        return 0;
}
