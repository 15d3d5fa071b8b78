/* SPDX-License-Identifier: Apache-2.0
 *
 * The module _glovebox: the C half of a template. It uses the stable ABI, so one build serves every Python 3.8 and
 * later of the same C library. glovebox_template.py calls it. */
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include "runner/python/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL_BLOCK_STEP 16
#define SMALL_BLOCK_MAX 512
#define PLACES_MAX 16
#define FILL_BYTES (256 * 1024) /* of blocks of one size: more than the holes that were seen */

static PyObject *py_prepare(PyObject *self, PyObject *unused)
{
        image_prepare();
        Py_RETURN_NONE;
}

/* The same for Python's own allocator as image_merge() does for malloc(): each size of small blocks has pages with room
 * in many places. These blocks are never freed. */
static void fill_pools(void)
{
        for (size_t size = SMALL_BLOCK_STEP; size <= SMALL_BLOCK_MAX; size += SMALL_BLOCK_STEP)
                for (size_t n = 0; n < FILL_BYTES / size; n++)
                        if (!PyObject_Malloc(size))
                                return;
}

/* Memory that is random, and must not be the same in two children. */
static struct {
        unsigned n;
        struct {
                char *at;
                size_t size;
        } places[PLACES_MAX];
} fresh;

static bool note_places(PyObject *list)
{
        Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;

        for (Py_ssize_t i = 0; i < n && i < PLACES_MAX; i++) {
                unsigned long long address, size;
                if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KK", &address, &size))
                        return false;
                fresh.places[fresh.n].at = (char *)(uintptr_t)address;
                fresh.places[fresh.n++].size = (size_t)size;
        }
        return n >= 0 && n <= PLACES_MAX;
}

/* True: nothing random is left that would be the same elsewhere. */
static bool renew(void)
{
        for (unsigned i = 0; i < fresh.n; i++)
                for (size_t done = 0; done < fresh.places[i].size;) {
                        ssize_t n = getrandom(fresh.places[i].at + done, fresh.places[i].size - done, 0);
                        if (n < 0 && errno != EINTR)
                                return false;
                        done += n > 0 ? (size_t)n : 0;
                }
        return true;
}

/* What a child does first, done once by a child that nobody gets: the pages it touches are those that all will. What the
 * trial returns is called when they are noted, to tidy up. */
static bool try_out(PyObject *trial, int channel, struct image_hot *hot)
{
        int status = 0;

        if (dup3(channel, BOX_CONTROL_FD, O_CLOEXEC) < 0)
                return false;
        pid_t pid = child_fork();
        if (pid == 0) {
                (void)renew();
                PyObject *tidy = PyObject_CallObject(trial, NULL);
                bool good = tidy && image_record(hot) == 0;
                if (good && PyCallable_Check(tidy))
                        (void)PyObject_CallObject(tidy, NULL);
                _exit(good ? 0 : 1);
        }
        if (pid < 0)
                return false;
        while (waitpid(pid, &status, __WALL) < 0)
                if (errno != EINTR)
                        return false;
        return status == 0;
}

/* What is hot in contexts, in scripts, and in both. NULL: not known. */
enum { HOT_CONTEXT, HOT_SCRIPT, HOT_COMMON, HOT_COUNT };
static struct image_hot *hot[HOT_COUNT];

static bool learn(PyObject *const trials[2], int channels[2][2])
{
        for (int i = 0; i < HOT_COUNT; i++)
                if (!hot[i])
                        return false;
        for (int i = 0; i < 2; i++)
                if (!try_out(trials[i], channels[i][0], hot[i]))
                        return false;
        image_hot_split(hot[HOT_CONTEXT], hot[HOT_SCRIPT], hot[HOT_COMMON]);
        for (int i = 0; i < HOT_COUNT; i++)
                if (image_hot_settle(hot[i]) < 0)
                        return false;
        return true;
}

static void forget(void)
{
        for (int i = 0; i < HOT_COUNT; i++) {
                image_hot_free(hot[i]);
                hot[i] = NULL;
        }
}

/* In a child that knows what it will be: a context (false) or a script (true). */
static PyObject *py_begin(PyObject *self, PyObject *mode)
{
        int i = mode == Py_True ? HOT_SCRIPT : HOT_CONTEXT;

        if (hot[i])
                image_prefault(hot[i]);
        return PyBool_FromLong(hot[i] != NULL);
}

/* From the merge on the template runs C only, and C that writes nowhere but to its stack: a page that it writes to is its own
 * from then on, and each fork copies it, with the page tables of everything around it. */
static PyObject *py_serve(PyObject *self, PyObject *args)
{
        struct image_stats stats;
        PyObject *trials[2], *places;
        const char *missing;
        int socket, channels[2][2], expected;

        if (!PyArg_ParseTuple(args, "(OO)((ii)(ii))isOi", &trials[0], &trials[1], &channels[0][0], &channels[0][1], &channels[1][0],
                              &channels[1][1], &socket, &missing, &places, &expected))
                return NULL;
        bool usual = note_places(places);
        if (PyErr_Occurred())
                return NULL;
        pid_t ours = getpid();
        fill_pools();
        for (int i = 0; i < HOT_COUNT; i++)
                hot[i] = image_hot_new();
        if (image_merge(&stats) < 0 || !learn(trials, channels))
                forget(); /* forks cost more, nothing else */
        for (int i = 0; i < 4; i++)
                close(channels[i / 2][i % 2]);
        close(BOX_CONTROL_FD);
        child_serve(socket, hot[HOT_COMMON], missing);
        /* One that was forked ahead has time, and will most likely be a context. */
        struct pollfd config = {.fd = BOX_CONTROL_FD, .events = POLLIN};
        if (hot[HOT_CONTEXT] && poll(&config, 1, 0) == 0)
                image_prefault(hot[HOT_CONTEXT]);
        /* Libraries that watch for forks do so by the process id: it has to be another one than the template's. */
        return PyBool_FromLong(usual && renew() && getpid() == expected && ours != expected);
}

static PyMethodDef methods[] = {
        {"prepare", py_prepare, METH_NOARGS, "Keeps malloc from mapping blocks of their own until serve()."},
        {"begin", py_begin, METH_O, "begin(is_script): takes ahead the pages that such a child touches. False: they are not known."},
        {"serve", py_serve, METH_VARARGS,
         "serve((try_context, try_script), channels, socket, missing, places, pid): makes this process cheap to fork, calls both in children, "
         "each with its channel (both ends), to learn which pages children touch; then forks children on the warden's orders, and returns in each of "
         "them. True: it has this process id, which is not the template's, and the places [(address, size)], if they are a list, were "
         "filled with random bytes."},
        {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
        PyModuleDef_HEAD_INIT, .m_name = "_glovebox", .m_doc = "The C half of a glovebox template.", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__glovebox(void);
PyMODINIT_FUNC PyInit__glovebox(void)
{
        return PyModule_Create(&module);
}
