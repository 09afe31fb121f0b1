/* Parses the C files that are its arguments. */
#include <stdio.h>
#include <tree_sitter/api.h>

const TSLanguage *tree_sitter_c(void);

int main(int argc, char **argv)
{
    static char text[1 << 22];
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, tree_sitter_c());
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "r");
        if (!file)
            return 2;
        size_t size = fread(text, 1, sizeof text, file);
        TSTree *tree = ts_parser_parse_string(parser, 0, text, size);
        printf("%s: %u nodes\n", argv[i], ts_node_descendant_count(ts_tree_root_node(tree)));
        ts_tree_delete(tree);
    }
    return 0;
}
