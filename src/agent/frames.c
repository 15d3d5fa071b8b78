/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host says of programs. Of one that has ended it may still say something: it did not know yet. */
#include "agent/program.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

static int take_plan(struct program *p, const struct wire_frame *f, const char *payload)
{
        if (p->state != PROGRAM_NONE && p->state != PROGRAM_PLANNED)
                return -EPROTO;
        if (p->state == PROGRAM_NONE) {
                *p = (struct program){.state = PROGRAM_PLANNED, .number = p->number, .report = -1};
                for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                        p->sources[i].fd = -1;
        }
        return program_add_to_plan(p, payload, f->size);
}

static int take_signal(struct program *p, const struct wire_frame *f)
{
        if (f->value == 0 || f->value >= NSIG)
                return -EPROTO;
        if (p->leader > 0)
                (void)kill(-p->leader, (int)f->value);
        program_say(WIRE_SIGNALLED, p, f->value, NULL, 0);
        return 0;
}

/* The sink that bytes or their end are for. NULL: there is none. */
static struct sink *sink_of(struct program *p, uint32_t stream)
{
        struct sink *s = stream < WIRE_STREAMS_MAX ? &p->sinks[stream] : NULL;

        return s && s->used && !s->eof ? s : NULL;
}

static int put(struct program *p, uint32_t stream, const char *payload, size_t size, int pass)
{
        int r = sink_put(p, stream, payload, size, pass);

        if (r == -ENOMEM) { /* it would get only a part of what was sent to it */
                program_starve(p);
                sink_shut(p, stream);
                return 0;
        }
        return r;
}

static int take_pass(struct program *p, const struct wire_frame *f, const char *payload)
{
        int theirs, ours;

        if (f->stream != WIRE_CONTROL || f->value < WIRE_PIPE_FIRST || f->value >= WIRE_STREAMS_MAX || f->size == 0 || !sink_of(p, WIRE_CONTROL))
                return -EPROTO;
        struct sink *s = &p->sinks[f->value];
        if ((s->used && !s->eof && !s->shut) || p->sinks[WIRE_CONTROL].n_passes == PASSES_MAX)
                return -EPROTO;
        if (s->used)
                sink_close(s);
        int r = program_make_pipe(&theirs, &ours, false);
        sink_open(p, f->value, ours);
        if (r < 0) { /* without its input it must not go on */
                sink_shut(p, f->value);
                program_starve(p);
                return 0;
        }
        return put(p, WIRE_CONTROL, payload, f->size, theirs);
}

static int take_data(struct program *p, const struct wire_frame *f, const char *payload)
{
        if (f->size == 0 || !sink_of(p, f->stream))
                return -EPROTO;
        return put(p, f->stream, payload, f->size, -1);
}

static int take_eof(struct program *p, const struct wire_frame *f)
{
        if (!sink_of(p, f->stream))
                return -EPROTO;
        sink_end(p, f->stream);
        return 0;
}

/* Of a stream that is closed here it was said before the host knew. */
static int take_credit(struct program *p, const struct wire_frame *f)
{
        if (f->stream < WIRE_STDOUT || f->stream > WIRE_CONTROL || f->value > WIRE_WINDOW)
                return -EPROTO;
        struct source *s = &p->sources[f->stream];
        if (s->fd < 0)
                return 0;
        if (f->value > WIRE_WINDOW - s->window)
                return -EPROTO;
        s->window += f->value;
        return 0;
}

/* As if the host had closed its end: who writes gets a SIGPIPE. */
static int take_shut(struct program *p, const struct wire_frame *f)
{
        if (f->stream < WIRE_STDOUT || f->stream > WIRE_CONTROL)
                return -EPROTO;
        if (f->stream == WIRE_CONTROL && p->sources[WIRE_CONTROL].fd >= 0)
                shutdown(p->sources[WIRE_CONTROL].fd, SHUT_RD);
        source_close(&p->sources[f->stream]);
        return 0;
}

/* A program that has been started. */
static int take_for(struct program *p, const struct wire_frame *f, const char *payload)
{
        bool ending = p->state == PROGRAM_ENDING; /* nobody is there who could take anything */
        int r;

        switch (f->type) {
        case WIRE_SIGNAL:
                return take_signal(p, f);
        case WIRE_STOP:
                program_stop(p);
                return 0;
        case WIRE_PASS:
                return ending ? 0 : take_pass(p, f, payload);
        case WIRE_DATA:
                return ending ? 0 : take_data(p, f, payload);
        case WIRE_EOF:
                return ending ? 0 : take_eof(p, f);
        case WIRE_CREDIT:
        case WIRE_SHUT:
                r = f->type == WIRE_CREDIT ? take_credit(p, f) : take_shut(p, f);
                if (r == 0)
                        program_go_on(p);
                return r;
        default:
                return -EPROTO;
        }
}

static bool has_payload(uint16_t type)
{
        return type == WIRE_PLAN || type == WIRE_PASS || type == WIRE_DATA;
}

static bool is_known(uint16_t type)
{
        return (type >= WIRE_PLAN && type <= WIRE_CLEAR) || (type >= WIRE_DATA && type <= WIRE_SHUT);
}

int programs_take(const struct wire_frame *f, const char *payload)
{
        if (!is_known(f->type) || (f->size > 0 && !has_payload(f->type)))
                return -EPROTO;
        if (f->type == WIRE_LOOK) {
                program_look(f->value);
                return 0;
        }
        if (f->type == WIRE_CLEAR) {
                programs_clear();
                return 0;
        }
        struct program *p = program_by_number(f->program);
        if (!p || f->stream >= WIRE_STREAMS_MAX)
                return -EPROTO;
        if (f->type == WIRE_PLAN)
                return take_plan(p, f, payload);
        if (f->type == WIRE_START)
                return p->state == PROGRAM_PLANNED ? program_start(p) : -EPROTO;
        if (p->state == PROGRAM_NONE)
                return 0; /* said before the host knew of its end */
        return p->state == PROGRAM_PLANNED ? -EPROTO : take_for(p, f, payload);
}
