/* Searches standard input for each of its own every 50th words, by Boyer, Moore and Horspool's rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t search(const char *text, size_t length, const char *word, size_t size) {
    size_t skip[256], found = 0;
    for (int i = 0; i < 256; i++) skip[i] = size;
    for (size_t i = 0; i + 1 < size; i++) skip[(unsigned char)word[i]] = size - 1 - i;
    for (size_t at = 0; at + size <= length; at += skip[(unsigned char)text[at + size - 1]]) {
        size_t i = size;
        while (i > 0 && text[at + i - 1] == word[i - 1]) i--;
        found += i == 0;
    }
    return found;
}

int main(void) {
    size_t room = 1 << 20, length = 0, number = 0;
    char *text = malloc(room + 1);
    length = fread(text, 1, room, stdin);
    text[length] = 0;
    size_t searched = length < 60000 ? length : 60000;
    char *copy = strdup(text), *save = copy;
    for (char *word = strtok(copy, " \n"); word && number < 5000; word = strtok(NULL, " \n"), number++)
        if (number % 50 == 0) printf("%s %zu\n", word, search(text, searched, word, strlen(word)));
    free(save);
    return 0;
}
