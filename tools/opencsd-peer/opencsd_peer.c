/* Decodes ETMv4, ETE, PTM, ETMv3 or STM trace with OpenCSD and says how long it took: see README.md. */

#include <opencsd/c_api/opencsd_c_api.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { MAX_SOURCES = 64, MAX_IMAGES = 256, PIECE = 65536 };

struct counts {
    unsigned long long packets, elements, instructions;
};

enum protocol { ETM4, ETE, PTM, ETM3, STM };

struct source {
    enum protocol protocol;
    ocsd_etmv4_cfg etm4;
    ocsd_stm_cfg system;
    uint32_t devarch;
    /* PTM and ETMv3 have the same registers. */
    ocsd_ptm_cfg ptm;
};

struct image {
    uint8_t *bytes;
    size_t length;
    uint64_t address;
};

static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("opencsd-peer: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail("cannot read %s", path);
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*length + 1);
    if (!bytes || fread(bytes, 1, *length, file) != *length)
        fail("cannot read %s", path);
    bytes[*length] = 0;
    fclose(file);
    return bytes;
}

static void set_register(struct source *source, const char *name, uint32_t value) {
    const struct {
        const char *name;
        uint32_t *place;
    } registers[] = {
        {"TRCIDR0", &source->etm4.reg_idr0},       {"TRCIDR1", &source->etm4.reg_idr1},
        {"TRCIDR2", &source->etm4.reg_idr2},       {"TRCIDR8", &source->etm4.reg_idr8},
        {"TRCIDR9", &source->etm4.reg_idr9},       {"TRCIDR10", &source->etm4.reg_idr10},
        {"TRCIDR11", &source->etm4.reg_idr11},     {"TRCIDR12", &source->etm4.reg_idr12},
        {"TRCIDR13", &source->etm4.reg_idr13},     {"TRCCONFIGR", &source->etm4.reg_configr},
        {"TRCTRACEIDR", &source->etm4.reg_traceidr}, {"TRCDEVARCH", &source->devarch},
        {"ETMCR", &source->ptm.reg_ctrl},         {"ETMIDR", &source->ptm.reg_idr},
        {"ETMCCER", &source->ptm.reg_ccer},       {"ETMTRACEIDR", &source->ptm.reg_trc_id},
        {"STMTCSR", &source->system.reg_tcsr},
    };
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
        if (strcasecmp(name, registers[i].name) == 0)
            *registers[i].place = value;
}

static enum protocol protocol_of(const char *type) {
    if (strncasecmp(type, "ETE", 3) == 0)
        return ETE;
    if (strncasecmp(type, "PTM", 3) == 0 || strncasecmp(type, "PFT", 3) == 0)
        return PTM;
    if (strncasecmp(type, "STM", 3) == 0)
        return STM;
    return strncasecmp(type, "ETM3", 4) == 0 ? ETM3 : ETM4;
}

/* NAME=VALUE a line; what comes in brackets behind a name, and names that are not known, are passed over. */
static struct source read_source(const char *path) {
    struct source source = {
        .etm4 = {.reg_idr0 = 0x28000EA1, .reg_idr1 = 0x4100F403, .reg_idr2 = 0x488, .reg_configr = 0xC1,
                 .arch_ver = ARCH_AA64, .core_prof = profile_CortexA},
        .devarch = 0x47705A13,
        .ptm = {.arch_ver = ARCH_V7, .core_prof = profile_CortexA},
    };
    size_t length;
    char *text = (char *)read_file(path, &length);
    for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = 0;
        line[strcspn(line, "( \t")] = 0;
        while (isspace((unsigned char)*value))
            value++;
        if (strcasecmp(line, "type") == 0)
            source.protocol = protocol_of(value);
        else
            set_register(&source, line, (uint32_t)strtoul(value, NULL, 0));
    }
    free(text);
    return source;
}

static ocsd_datapath_resp_t count_packet(const void *context, const ocsd_datapath_op_t op,
                                         const ocsd_trc_index_t index, const void *packet) {
    (void)index, (void)packet;
    if (op == OCSD_OP_DATA)
        ((struct counts *)context)->packets++;
    return OCSD_RESP_CONT;
}

static ocsd_datapath_resp_t count_element(const void *context, const ocsd_trc_index_t index, const uint8_t id,
                                          const ocsd_generic_trace_elem *element) {
    (void)index, (void)id;
    struct counts *counts = (struct counts *)context;
    counts->elements++;
    if (element->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE)
        counts->instructions += element->num_instr_range;
    return OCSD_RESP_CONT;
}

static void add_source(dcd_tree_handle_t tree, const struct source *source, int flow, struct counts *counts) {
    const ocsd_etmv4_cfg *etm4 = &source->etm4;
    const ocsd_ete_cfg ete = {
        .reg_idr0 = etm4->reg_idr0, .reg_idr1 = etm4->reg_idr1, .reg_idr2 = etm4->reg_idr2,
        .reg_idr8 = etm4->reg_idr8, .reg_devarch = source->devarch, .reg_configr = etm4->reg_configr,
        .reg_traceidr = etm4->reg_traceidr, .arch_ver = etm4->arch_ver, .core_prof = etm4->core_prof,
    };
    const ocsd_etmv3_cfg etm3 = {
        .reg_idr = source->ptm.reg_idr, .reg_ctrl = source->ptm.reg_ctrl, .reg_ccer = source->ptm.reg_ccer,
        .reg_trc_id = source->ptm.reg_trc_id, .arch_ver = source->ptm.arch_ver, .core_prof = source->ptm.core_prof,
    };
    const struct {
        const char *name;
        const void *config;
    } decoders[] = {
        [ETM4] = {OCSD_BUILTIN_DCD_ETMV4I, etm4}, [ETE] = {OCSD_BUILTIN_DCD_ETE, &ete},
        [PTM] = {OCSD_BUILTIN_DCD_PTM, &source->ptm}, [ETM3] = {OCSD_BUILTIN_DCD_ETMV3, &etm3},
        [STM] = {OCSD_BUILTIN_DCD_STM, &source->system},
    };
    const char *name = decoders[source->protocol].name;
    const void *config = decoders[source->protocol].config;
    int flags = flow ? OCSD_CREATE_FLG_FULL_DECODER : OCSD_CREATE_FLG_PACKET_PROC;
    unsigned char id;
    if (ocsd_dt_create_decoder(tree, name, flags, config, &id) != OCSD_OK)
        fail("OpenCSD refuses the configuration of a source");
    if (!flow && ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_SINK, (void *)count_packet, counts) != OCSD_OK)
        fail("OpenCSD refuses a packet callback");
}

static void decode(dcd_tree_handle_t tree, const uint8_t *bytes, size_t length) {
    size_t at = 0;
    while (at < length) {
        uint32_t piece = length - at < PIECE ? (uint32_t)(length - at) : PIECE, used = 0;
        ocsd_datapath_resp_t response = ocsd_dt_process_data(tree, OCSD_OP_DATA, at, piece, bytes + at, &used);
        if (OCSD_DATA_RESP_IS_FATAL(response))
            fail("OpenCSD stopped at byte %zu", at + used);
        at += used;
    }
    ocsd_dt_process_data(tree, OCSD_OP_EOT, 0, 0, NULL, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **arguments) {
    static struct source sources[MAX_SOURCES];
    static struct image images[MAX_IMAGES];
    int source_count = 0, image_count = 0, rounds = 5, flow = 0, frames = 0;
    const char *file = NULL;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        const char *value = i + 1 < count ? arguments[i + 1] : "";
        if (argument[0] != '-') {
            file = argument;
            continue;
        }
        i++;
        if (strcmp(argument, "--stage") == 0)
            flow = strcmp(value, "flow") == 0;
        else if (strcmp(argument, "--framing") == 0)
            frames = strcmp(value, "coresight") == 0;
        else if (strcmp(argument, "--rounds") == 0)
            rounds = atoi(value) > 0 ? atoi(value) : 1;
        else if (strcmp(argument, "--source") == 0 && source_count < MAX_SOURCES)
            sources[source_count++] = read_source(value);
        else if (strcmp(argument, "--image") == 0 && image_count < MAX_IMAGES) {
            char *at = strrchr(arguments[i], '@');
            if (!at)
                fail("--image %s: expected FILE@ADDRESS", value);
            *at = 0;
            struct image *image = &images[image_count++];
            image->bytes = read_file(value, &image->length);
            image->address = strtoull(at + 1, NULL, 0);
        } else
            fail("unknown option %s", argument);
    }
    if (!file || !source_count)
        fail("usage: opencsd-peer [--stage packets|flow] [--framing raw|coresight] --source REGISTERS [--image "
             "FILE@ADDRESS] [--rounds N] FILE");

    size_t length;
    uint8_t *bytes = read_file(file, &length);
    if (frames)
        length -= length % 16;
    ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
    struct counts counts = {0};
    double best = 0;
    for (int round = 0; round < rounds; round++) {
        counts = (struct counts){0};
        dcd_tree_handle_t tree = ocsd_create_dcd_tree(
            frames ? OCSD_TRC_SRC_FRAME_FORMATTED : OCSD_TRC_SRC_SINGLE, frames ? OCSD_DFRMTR_FRAME_MEM_ALIGN : 0);
        for (int i = 0; i < source_count; i++)
            add_source(tree, &sources[i], flow, &counts);
        /* From memory: OpenCSD reads an image that is given as a file again for every look at it. */
        for (int i = 0; i < image_count; i++)
            if (ocsd_dt_add_buffer_mem_acc(tree, images[i].address, OCSD_MEM_SPACE_ANY, images[i].bytes,
                                           (uint32_t)images[i].length) != OCSD_OK)
                fail("OpenCSD refuses the image at 0x%llx", (unsigned long long)images[i].address);
        if (flow)
            ocsd_dt_set_gen_elem_outfn(tree, count_element, &counts);
        double start = now();
        decode(tree, bytes, length);
        double seconds = now() - start;
        if (round == 0 || seconds < best)
            best = seconds;
        ocsd_destroy_dcd_tree(tree);
    }
    printf("{\"decoder\":\"OpenCSD %s\",\"stage\":\"%s\",\"bytes\":%zu,\"packets\":%llu,\"elements\":%llu,"
           "\"instructions\":%llu,\"seconds\":%.6f,\"megabytes_per_second\":%.1f}\n",
           ocsd_get_version_str(), flow ? "flow" : "packets", length, counts.packets, counts.elements,
           counts.instructions, best, (double)length / best / 1e6);
    free(bytes);
    return 0;
}
