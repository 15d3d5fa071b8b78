/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and examples of the verbs of `glovebox image`; for the table in commands.c only. */
#ifndef CLI_COMMANDS_IMAGE_H
#define CLI_COMMANDS_IMAGE_H

#define ROW_IMAGE_BACKEND(text)                                                                      \
        {.id = OPT_POLICY_KEY, .key = "backend", .name = "backend", .value = VALUE_REQUIRED,         \
         .placeholder = "NAME", .env = "GLOVEBOX_BACKEND", .help = (text),                           \
         .fallback = "the policy's", .completion = COMPLETE_WORDS, .words = "native docker"}

static const struct option image_build_options[] = {
        ROW_IMAGE_BACKEND("native: a root file system in the store, by mmdebstrap; docker: by the engine"),
        {.id = OPT_DIRECTORY, .name = "directory", .value = VALUE_REQUIRED, .placeholder = "DIR",
         .help = "what it is built from: packages and check.py, for an engine Dockerfile", .fallback = "that of NAME in the installation",
         .completion = COMPLETE_DIRECTORY},
        {.id = OPT_BASE, .name = "base", .value = VALUE_REQUIRED, .placeholder = "IMAGE",
         .help = "docker: the image to begin with", .fallback = "that of the Dockerfile"},
        {.id = OPT_TAG, .name = "tag", .value = VALUE_REQUIRED, .placeholder = "NAME", .help = "what the image is called", .fallback = "NAME"},
        {.id = OPT_NETWORK, .name = "network", .value = VALUE_REQUIRED, .placeholder = "MODE",
         .help = "docker: network of the steps of the build", .fallback = "the engine's", .completion = COMPLETE_WORDS, .words = "none host"},
        {.id = OPT_SUITE, .name = "suite", .value = VALUE_REQUIRED, .placeholder = "SUITE",
         .help = "native: the release of Debian", .fallback = "that of this host"},
        ROW_POLICY,
        ROW_ALLOW_WEAKER,
        ROW_QUIET("no progress"),
        ROW_JSON("print the image as one object"),
        ROW_HELP,
};

static const struct option image_list_options[] = {
        ROW_IMAGE_BACKEND("native: the store; docker: the images of the engine"),
        ROW_POLICY,
        ROW_QUIET("only the names, one a line"),
        ROW_JSON("print the list as one object"),
        ROW_HELP,
};

static const struct option image_rm_options[] = {
        ROW_IMAGE_BACKEND("native: from the store; docker: from the engine, with what was made of it for containers"),
        ROW_POLICY,
        ROW_JSON("print the names of those that were removed as one object"),
        ROW_HELP,
};

static const struct option image_import_options[] = {
        ROW_QUIET("no progress"),
        ROW_JSON("print the image as one object"),
        ROW_HELP,
};

static const struct option image_export_options[] = {
        {.id = OPT_OCI, .name = "oci", .help = "an OCI layout, which engines load, instead of a tar of the root"},
        ROW_QUIET("no progress"),
        ROW_JSON("print what was written as one object; not with - as FILE"),
        ROW_HELP,
};

static const struct command_example image_build_examples[] = {
        {"glovebox image build glovebox-python", "a root file system for native runs"},
        {"glovebox image build glovebox-python --backend docker", "the image that docker runs take"},
        {"glovebox image build glovebox-python --backend docker --base python:3.12-slim", "from another base"},
        {NULL, NULL},
};

static const struct command_example image_list_examples[] = {
        {"glovebox image list", "what 'glovebox run --image' can take"},
        {NULL, NULL},
};

static const struct command_example image_rm_examples[] = {
        {"glovebox image rm glovebox-python", "remove it"},
        {NULL, NULL},
};

static const struct command_example image_import_examples[] = {
        {"docker save debian:12 | glovebox image import - debian", "from an engine"},
        {"glovebox image import rootfs.tar.gz mine:2", "a tar of a root file system"},
        {"glovebox run --image mine:2 job.py", "and code in it"},
        {NULL, NULL},
};

static const struct command_example image_export_examples[] = {
        {"glovebox image export glovebox-python root.tar", "all its files"},
        {"glovebox image export --oci glovebox-python - | docker load", "into an engine"},
        {NULL, NULL},
};

#endif
