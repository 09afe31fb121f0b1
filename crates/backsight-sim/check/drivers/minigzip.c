/* Standard input to standard output: compressed, or with -d expanded. */
#include <string.h>
#include <unistd.h>
#include <zlib.h>

int main(int argc, char **argv)
{
    static char buffer[65536];
    int expand = argc > 1 && strcmp(argv[1], "-d") == 0;
    gzFile file = gzdopen(expand ? 0 : 1, expand ? "rb" : "wb9");
    long count;
    if (!file)
        return 1;
    if (expand)
        while ((count = gzread(file, buffer, sizeof buffer)) > 0)
            write(1, buffer, (size_t)count);
    else
        while ((count = read(0, buffer, sizeof buffer)) > 0)
            gzwrite(file, buffer, (unsigned)count);
    return gzclose(file) != Z_OK || count < 0;
}
