/* A database in a file: puts, gets, walks and deletes. The arguments are a file and a number of keys. */
#include <stdio.h>
#include <stdlib.h>
#include "lmdb.h"

#define check(call) do { int status = (call); if (status) { fprintf(stderr, "%s: %s\n", #call, mdb_strerror(status)); return 1; } } while (0)

int main(int argc, char **argv)
{
    MDB_env *env; MDB_txn *txn; MDB_dbi dbi; MDB_cursor *cursor;
    char key[40], value[80];
    unsigned seed = 7;
    size_t found = 0, bytes = 0;
    if (argc < 3)
        return 2;
    check(mdb_env_create(&env));
    check(mdb_env_set_mapsize(env, 64 << 20));
    check(mdb_env_open(env, argv[1], MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_WRITEMAP, 0600));
    for (int round = 0; round < 4; round++) {
        check(mdb_txn_begin(env, 0, 0, &txn));
        check(mdb_dbi_open(txn, 0, 0, &dbi));
        for (int i = 0; i < atoi(argv[2]); i++) {
            seed = seed * 1664525 + 1013904223;
            MDB_val k = { snprintf(key, sizeof key, "key %u", seed >> 12), key };
            MDB_val v = { snprintf(value, sizeof value, "value %d %x", i, seed), value };
            if (seed >> 30 < 2)
                check(mdb_put(txn, dbi, &k, &v, 0));
            else if (!mdb_get(txn, dbi, &k, &v))
                found++;
            if (seed >> 29 == 3)
                mdb_del(txn, dbi, &k, 0);
        }
        check(mdb_txn_commit(txn));
        check(mdb_txn_begin(env, 0, MDB_RDONLY, &txn));
        check(mdb_cursor_open(txn, dbi, &cursor));
        for (MDB_val k, v; !mdb_cursor_get(cursor, &k, &v, MDB_NEXT);)
            bytes += k.mv_size + v.mv_size;
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
    }
    printf("%zu found, %zu bytes\n", found, bytes);
    mdb_env_close(env);
    remove(argv[1]);
    return 0;
}
