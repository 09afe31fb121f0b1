/* Decodes the MP3 file on standard input to 16-bit samples on standard output with libmad. */
#include "mad.h"
#include <stdio.h>

static unsigned char data[1 << 21];
static size_t length;

static enum mad_flow input(void *done, struct mad_stream *stream) {
    if (*(int *)done) return MAD_FLOW_STOP;
    *(int *)done = 1;
    mad_stream_buffer(stream, data, length + MAD_BUFFER_GUARD);
    return MAD_FLOW_CONTINUE;
}

static short scale(mad_fixed_t sample) {
    sample += 1L << (MAD_F_FRACBITS - 16);
    if (sample >= MAD_F_ONE) sample = MAD_F_ONE - 1;
    if (sample < -MAD_F_ONE) sample = -MAD_F_ONE;
    return sample >> (MAD_F_FRACBITS - 15);
}

static enum mad_flow output(void *done, struct mad_header const *header, struct mad_pcm *pcm) {
    short samples[1152];
    for (unsigned i = 0; i < pcm->length; i++) samples[i] = scale(pcm->samples[0][i]);
    fwrite(samples, 2, pcm->length, stdout);
    return MAD_FLOW_CONTINUE;
}

static enum mad_flow error(void *done, struct mad_stream *stream, struct mad_frame *frame) {
    return MAD_RECOVERABLE(stream->error) ? MAD_FLOW_CONTINUE : MAD_FLOW_BREAK;
}

int main(void) {
    int done = 0;
    struct mad_decoder decoder;
    length = fread(data, 1, sizeof data - MAD_BUFFER_GUARD, stdin);
    mad_decoder_init(&decoder, &done, input, 0, 0, output, error, 0);
    mad_decoder_run(&decoder, MAD_DECODER_MODE_SYNC);
    mad_decoder_finish(&decoder);
    return 0;
}
