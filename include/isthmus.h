// SPDX-License-Identifier: Apache-2.0
// What Isthmus offers beyond the NCCL API (nccl.h): streams on hosts, compressed sums and its own version. For programs in C and C++.
// Calls return an ncclResult_t; after a failure ncclGetLastError() says what went wrong.
#ifndef ISTHMUS_H_
#define ISTHMUS_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define ISTHMUS_MAJOR 0
#define ISTHMUS_MINOR 1
#define ISTHMUS_PATCH 0
#define ISTHMUS_VERSION_CODE (ISTHMUS_MAJOR * 10000 + ISTHMUS_MINOR * 100 + ISTHMUS_PATCH)

/// *version <- the library's own version, as ISTHMUS_VERSION_CODE. (ncclGetVersion gives the NCCL version it stands for.)
ncclResult_t isthmusGetVersion(int* version);

/// Makes a stream: a queue whose operations run in the order in which they were enqueued, while the caller goes on. Calls that are given
/// the handle return once enqueued; their buffers belong to the library until the stream has been synchronised.
ncclResult_t isthmusStreamCreate(cudaStream_t* stream);
/// Waits for the stream's operations, then forgets the handle. Reports what isthmusStreamSynchronize would have.
ncclResult_t isthmusStreamDestroy(cudaStream_t stream);
/// Waits until every operation enqueued so far has finished. The first failure among them since the last call is returned.
ncclResult_t isthmusStreamSynchronize(cudaStream_t stream);
/// ncclSuccess if every operation enqueued so far has finished, ncclInProgress if not, or the first failure. Never waits.
ncclResult_t isthmusStreamQuery(cudaStream_t stream);

// --- compression -------------------------------------------------------------------------------------------------------------
// Sums that travel compressed: each rank encodes its elements once, sums are added as they are (thc) or where they end (bf16, int8,
// int4), and every rank ends with the same bits. Of allreduce and reduce-scatter, for ncclFloat32, ncclFloat16 and ncclBfloat16, ncclSum
// and ncclAvg. All ranks must ask for the same codec and algorithm, as for the same count.

/// What the encodings of earlier calls lack of one send buffer, kept by the caller from call to call (error feedback).
typedef struct isthmusFeedback* isthmusFeedback_t;

/// How calls are to be compressed. Begin with ISTHMUS_COMPRESSION_INITIALIZER.
typedef struct isthmusCompression_v1 {
  size_t size;                /* of this struct; set by the initializer */
  unsigned int version;       /* set by the initializer */
  const char* codec;          /* "thc", "thc:b=4,p=1/32", "bf16", "int8", "int4", "none"; NULL: "thc" */
  const char* algorithm;      /* one that the collective has, see docs/algorithms.md; NULL: chosen by ranks and sites */
  size_t minBytes;            /* smaller calls go as they are; 0: none in a call of its own, below 1 MiB on a communicator */
  isthmusFeedback_t feedback; /* NULL: none. Codec thc then needs ef=on. For calls of their own only */
  int required;               /* not 0: what the codec cannot serve fails, instead of going as it is */
} isthmusCompression_t;

#define ISTHMUS_COMPRESSION_INITIALIZER \
  { sizeof(isthmusCompression_t), ISTHMUS_VERSION_CODE, NULL, NULL, 0, NULL, 0 }

/// As ncclAllReduce and ncclReduceScatter, compressed as `how` says; NULL: as the communicator's calls are, or else with "thc".
ncclResult_t isthmusAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                        const isthmusCompression_t* how, ncclComm_t comm, cudaStream_t stream);
ncclResult_t isthmusReduceScatterCompressed(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                            const isthmusCompression_t* how, ncclComm_t comm, cudaStream_t stream);

/// From now on ncclAllReduce and ncclReduceScatter on this communicator are compressed as `how` says; NULL: no more. To be called on all
/// ranks between the same calls. It goes before the rules of ISTHMUS_COMPRESSION; the codec "none" keeps them off.
ncclResult_t isthmusCommSetCompression(ncclComm_t comm, const isthmusCompression_t* how);

/// Makes feedback of `count` zeros: as many as the send buffer has elements.
ncclResult_t isthmusFeedbackCreate(isthmusFeedback_t* feedback, size_t count);
/// This and the following fail with ncclInvalidUsage while a call that uses the feedback, on a stream or in another thread, has not ended.
ncclResult_t isthmusFeedbackDestroy(isthmusFeedback_t feedback);
/// All zeros again.
ncclResult_t isthmusFeedbackReset(isthmusFeedback_t feedback);
/// to[0, count) <- the feedback, for a checkpoint; and back. `count` must be that of isthmusFeedbackCreate.
ncclResult_t isthmusFeedbackExport(isthmusFeedback_t feedback, float* to, size_t count);
ncclResult_t isthmusFeedbackImport(isthmusFeedback_t feedback, const float* from, size_t count);

/// What became of a communicator's calls on this rank. Begin with ISTHMUS_COMPRESSION_INFO_INITIALIZER. Errors are squares of what this
/// rank's own encodings lack, over squares of what was encoded, of every 64th block; NaN where nothing was measured.
typedef struct isthmusCompressionInfo_v1 {
  size_t size;           /* of this struct; set by the initializer */
  unsigned int version;  /* set by the initializer */
  int compressed;        /* the latest call that somebody wanted compressed was */
  char codec[96];        /* ... with this codec, */
  char algorithm[32];    /* by this algorithm; both "" if it was not */
  char refusal[256];     /* ... was not, and why; "" if it was */
  double predictedError; /* of the average over the ranks, for Gaussian elements that are independent between ranks; NaN if unknown */
  unsigned long long sentBytes;                       /* by this rank in the latest compressed call to end, without headers */
  double measuredError;                               /* in that call */
  unsigned long long compressedCalls, totalSentBytes; /* of all compressed calls that have ended */
  double totalMeasuredError;
  unsigned long long refusedForType, refusedForOp, refusedForSize, refusedForRanks; /* calls that went as they are, or failed */
} isthmusCompressionInfo_t;

/* Infos and reports are begun with all their fields, so that compilers have none to warn of (-Wmissing-field-initializers). */
#define ISTHMUS_COMPRESSION_INFO_INITIALIZER \
  { sizeof(isthmusCompressionInfo_t), ISTHMUS_VERSION_CODE, 0, {0}, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

ncclResult_t isthmusCommGetCompressionInfo(ncclComm_t comm, isthmusCompressionInfo_t* info);

// --- plans -------------------------------------------------------------------------------------------------------------------
// What is known of the links between a communicator's ranks, and which algorithms were chosen by that (docs/planning.md). The same text on
// all ranks.

/// text[0, *bytes) <- what was measured when the communicator was made (ISTHMUS_PROBE=1), as JSON that `isthmus plan make` and
/// `isthmus explain` read, ended by a zero. *bytes is the room there is, and afterwards what the text takes; with a text of NULL nothing is
/// written but that.
///   ncclInvalidArgument  there is not room enough
///   ncclInvalidUsage     nothing was measured
ncclResult_t isthmusCommProfile(ncclComm_t comm, char* text, size_t* bytes);
/// The same of the plan that the communicator follows, measured or named by ISTHMUS_PLAN_FILE; ncclInvalidUsage: it follows none.
ncclResult_t isthmusCommPlan(ncclComm_t comm, char* text, size_t* bytes);

// --- aggregator --------------------------------------------------------------------------------------------------------------
// Sums at one place (the command isthmus aggregate --listen), made of the vectors of those ranks that come: no communicator is
// needed, ranks may be late, die and come back. Vectors travel encoded by the codec "thc"; ncclFloat32, ncclFloat16, ncclBfloat16 in host
// memory. Calls block. Any thread may call; on one handle one call runs at a time.

/// A connection to an aggregator.
typedef struct isthmusAggregator* isthmusAggregator_t;

/// Begin with ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER; address, rank and ranks must be set.
typedef struct isthmusAggregatorConfig_v1 {
  size_t size;                         /* of this struct; set by the initializer */
  unsigned int version;                /* set by the initializer */
  const char* address;                 /* the aggregator's, host:port */
  int rank, ranks;                     /* this rank, and how many the aggregator serves */
  const char* codec;                   /* as the aggregator's, such as "thc:b=4"; NULL: whatever it is */
  const char* secretFile;              /* NULL: ISTHMUS_SECRET_FILE, or on loopback addresses this user's own */
  unsigned long long connectTimeoutMs; /* to be let in; 0: ISTHMUS_SETUP_TIMEOUT */
  unsigned long long sumTimeoutMs;     /* for a sum; 0: ISTHMUS_TIMEOUT, or if that is 0 the aggregator's own limits */
} isthmusAggregatorConfig_t;

#define ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER \
  { sizeof(isthmusAggregatorConfig_t), ISTHMUS_VERSION_CODE, NULL, -1, -1, NULL, NULL, 0, 0 }

/// What a sum is made of. Begin with ISTHMUS_AGGREGATE_RESULT_INITIALIZER.
typedef struct isthmusAggregateResult_v1 {
  size_t size;                                 /* of this struct; set by the initializer */
  unsigned int version;                        /* set by the initializer */
  unsigned long long round;                    /* counted by the aggregator from 1; one that is skipped was missed while away */
  int contributors;                            /* ranks in the sum; an average was divided by this */
  int late;                                    /* not 0: this rank came too late to be among them */
  int lateRanks;                               /* ranks that took part too late, as far as was known */
  unsigned long long ranks[16];                /* those in the sum: rank r is bit r % 64 of ranks[r / 64] */
  unsigned long long sentBytes, receivedBytes; /* of messages, by this rank */
} isthmusAggregateResult_t;

#define ISTHMUS_AGGREGATE_RESULT_INITIALIZER \
  { sizeof(isthmusAggregateResult_t), ISTHMUS_VERSION_CODE, 0, 0, 0, 0, {0}, 0, 0 }

/// Connects, proves to know the secret, and waits to be let in.
///   ncclInvalidArgument  the configuration is wrong, or the address unknown
///   ncclInvalidUsage     the aggregator refuses this rank: taken by another process, another number of ranks, another codec
///   ncclRemoteError      it cannot be reached, or not in time
ncclResult_t isthmusAggregatorConnect(isthmusAggregator_t* aggregator, const isthmusAggregatorConfig_t* config);

/// recvbuff <- the sum (ncclSum) or average (ncclAvg) of the ranks that come in this round, the same bytes on all ranks that have the
/// result; recvbuff may be sendbuff. A rank that comes when the round is over gets its result, without being in it. `result` may be NULL.
/// After a failure recvbuff holds anything; the next call takes part in the next round, and connects again where the connection was lost.
///   ncclInvalidArgument  type, operator or buffers; more elements than the aggregator has memory for
///   ncclInvalidUsage     the ranks of the round do not agree on count, type and operator; or the result is no longer kept
///   ncclRemoteError      no quorum in time, or the aggregator is lost
ncclResult_t isthmusAggregatorSum(isthmusAggregator_t aggregator, const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, isthmusAggregateResult_t* result);

/// Says farewell and forgets the handle. Waits for a call that is running in another thread.
ncclResult_t isthmusAggregatorClose(isthmusAggregator_t aggregator);

// --- cohorts -----------------------------------------------------------------------------------------------------------------
// Weighted means over the ranks of a communicator that come in time (docs/secure-sums.md): members may be late, and those that die do not
// hold the others (nor come back); all get the same bytes, and with masks nobody, the adding rank included, sees anything but the sum.
// Vectors travel encoded by the codec "thc", so that means are not exact. The squared error over that of the exact mean, for vectors that
// are independent between four ranks, is about 0.013 with "thc" and 0.0003 with "thc:b=8" (docs/compression.md); its dither is drawn anew
// for every communicator and configuration, so that means differ from run to run. Calls block; host memory only.

#define ISTHMUS_MAGIC 0x49535448u

/// What becomes of a vector that came too late.
enum { ISTHMUS_LATE_DROP = 0, ISTHMUS_LATE_CARRY = 1 };

/// How a group's sums are made; the same on all ranks of the communicator, call after call, but for the epoch. Begin with
/// ISTHMUS_GROUP_CONFIG_INITIALIZER: plain sums, all ranks must come, weights up to 1. With masks clip must be set, and minCohort (3) must
/// not be more than the ranks there are; with weights above 1 largestWeight, with ranks that may be late or die deadlineMs and quorum.
typedef struct isthmusGroupConfig_v1 {
  size_t size; /* of this struct; magic and version: set by the initializer, too */
  unsigned int magic, version;
  unsigned long long epoch; /* of the cohort (isthmusCohortUpdate): vectors for an older one than the newest seen are refused */
  unsigned int deadlineMs;  /* for a whole sum, from its first rank's call: half of it is for coming; 0: none, and all must come */
  unsigned int quorum;      /* ranks that are enough when time is over; 0, or without a deadline: all. Masked: minCohort if that is more */
  int latePolicy;           /* ISTHMUS_LATE_DROP or ISTHMUS_LATE_CARRY: added to that rank's next vector */
  double carryFactor;       /* with that, times this for each round */
  double largestWeight;     /* no weight is beyond it; vectors are scaled by weight / this, so that far above all weights it costs
                               masked ones accuracy */
  const char* codec;        /* "thc", "thc:b=8", ...; NULL: "thc". No other: "none" and "bf16" are refused, and so is ef=on */
  int masked;               /* not 0: sums are masked */
  unsigned int neighbours;  /* masked: ranks that each shares masks with, even; 0: all */
  unsigned int threshold;   /* masked: of them and the rank itself, that can take a rank's masks away together; 0: the least majority */
  unsigned int minCohort;   /* masked: fewer vectors are never added up; at least 2 */
  float clip;               /* masked: root mean square that groups of elements are scaled down to, after weight / largestWeight; above 0.
                               The error grows roughly with its square: choose it a little above what vectors have (largestBeforeClip) */
  double noise;             /* masked: standard deviation of Gaussian noise that each rank adds, over clip * sqrt(count); 0: none */
} isthmusGroupConfig_t;

#define ISTHMUS_GROUP_CONFIG_INITIALIZER \
  { sizeof(isthmusGroupConfig_t), ISTHMUS_MAGIC, ISTHMUS_VERSION_CODE, 0, 0, 0, ISTHMUS_LATE_DROP, 0.5, 1.0, NULL, 0, 0, 0, 3, 0, 0 }

/// What a mean is made of. Begin with ISTHMUS_GROUP_INFO_INITIALIZER.
typedef struct isthmusGroupInfo_v1 {
  size_t size;
  unsigned int magic, version;
  unsigned long long epoch, round;
  int members, survivors;       /* ranks of the communicator, and those in the mean */
  int counted;                  /* not 0: this rank is among them */
  int lateRanks;                /* ranks that took part too late, as far as was known */
  unsigned long long ranks[16]; /* the survivors: rank r is bit r % 64 of ranks[r / 64] */
  double weightSum;             /* of the survivors */
  unsigned int modulusBits;     /* masked: sums are made modulo 2 to this */
  double largestBeforeClip;     /* masked: the largest root mean square of a group of this rank's, before it was scaled down */
  double epsilon, epsilonTotal; /* with noise: differential privacy of this rank's vector against everybody, for delta = 1e-5, by this sum
                                   alone and by all so far with this configuration; 0: none */
  unsigned long long sentBytes, receivedBytes; /* of messages, by this rank */
} isthmusGroupInfo_t;

#define ISTHMUS_GROUP_INFO_INITIALIZER \
  { sizeof(isthmusGroupInfo_t), ISTHMUS_MAGIC, ISTHMUS_VERSION_CODE, 0, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0 }

/// recvbuff <- the mean of the ranks' vectors, weighted: sum w x / sum w over those who came in time, the same bytes on all ranks that get
/// it. ncclFloat32, ncclFloat16, ncclBfloat16; recvbuff may be sendbuff; `stream` must be NULL. weight is 0 to largestWeight, and counted
/// in 1/65536, to which it is rounded. `info` may be NULL. The first call on a communicator, and one with another configuration, is
/// collective: all ranks must make it, and if one fails to take part the call fails on all. Afterwards ranks that are dead or late do not
/// hold the others beyond the deadline; if rank 0, which keeps it, is stuck, not beyond one and a half times the deadline and a second.
/// A call that is refused still takes part, with weight 0: the others do not wait, and the next call is in the same sum as theirs.
///   ncclInvalidArgument  configuration, type, weight (also one above 0 that would count as 0) or buffers; masked: an element that is not
///                        finite
///   ncclInvalidUsage     the epoch is older than another rank's; ranks disagree about count or configuration; the weights add up to 0
///   ncclRemoteError      no quorum at the deadline (NCCL 2.28 has no code for time that has passed), too few ranks for masks; without a
///                        deadline: a rank is lost; rank 0, which adds, is lost or stuck
ncclResult_t isthmusGroupAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, double weight,
                                   ncclComm_t comm, const isthmusGroupConfig_t* config, isthmusGroupInfo_t* info, cudaStream_t stream);

// Which ranks are such cohorts: clusters of clients whose data are alike, which follow drift. Every process stands for as many clients as
// it likes. A client reports a small representation of its data; updates move clients to the nearest cluster, and cluster all anew when
// centres have moved too far. Every process keeps the whole table and computes the same from it.

/// A cohort over a communicator.
typedef struct isthmusCohort* isthmusCohort_t;

enum { ISTHMUS_REP_LABEL = 0, ISTHMUS_REP_EMBEDDING = 1, ISTHMUS_REP_CLASS_MEANS = 2, ISTHMUS_REP_GRADIENT = 3 };
enum { ISTHMUS_COHORT_MAX_K = 64 };
/// Clusters are divided while the parts stand apart; or the best mean silhouette decides, which takes the coarsest of nested groups.
enum { ISTHMUS_K_SPLIT = 0, ISTHMUS_K_SILHOUETTE = 1 };

/// The same in all processes. Begin with ISTHMUS_COHORT_CONFIG_INITIALIZER; dim must be set. A round is a call of isthmusCohortUpdate.
typedef struct isthmusCohortConfig_v1 {
  size_t size;
  unsigned int magic, version;
  int repKind;                  /* ISTHMUS_REP_LABEL: shares of labels, in the l1 metric; the others in l2 */
  int dim;                      /* numbers of a representation */
  unsigned long long probeHash; /* of the encoder or probe that representations are made with; 0: none */
  unsigned long long seed;      /* of the clustering, and of sketches */
  int kMin, kMax, kFixed;       /* clusters; 0: at least 1, at most 8 (and the root of the clients), and as many as fit */
  int kRule;                    /* by which their number is found: ISTHMUS_K_SPLIT or ISTHMUS_K_SILHOUETTE */
  int restarts;                 /* seedings of k-means that are tried, of which the best counts; at least 1 */
  double tau;                   /* cluster all anew when a centre has moved by more than this of the distance between centres (rho) */
  double hysteresis;            /* a client moves when another centre is nearer by more than this share */
  double silhouetteMin;         /* by ISTHMUS_K_SILHOUETTE: one cluster where none fits better */
  int minCohort;      /* clients: clusters with fewer are dissolved into their neighbours, also where kFixed asks for more clusters, and a
                         cluster that has come to have fewer is a reason to cluster all anew. At least 1. Not the group's minCohort, which
                         counts ranks */
  int cooldownRounds; /* from one clustering of all to the next at least, whatever the reason, unless rho is above twice tau */
  double deltaReport; /* reports are left out that are no farther than this from their client's last, and that would not move it; of shares
                         of labels also what two samples of the same data may differ by. Below 0: none is */
} isthmusCohortConfig_t;

#define ISTHMUS_COHORT_CONFIG_INITIALIZER                                                                                                 \
  {                                                                                                                                       \
    sizeof(isthmusCohortConfig_t), ISTHMUS_MAGIC, ISTHMUS_VERSION_CODE, ISTHMUS_REP_LABEL, 0, 0, 0, 0, 0, 0, ISTHMUS_K_SPLIT, 4, 1.0 / 3, \
        0.05, 0.2, 3, 5, 0                                                                                                                \
  }

/// What an update came to; the same in all processes. Begin with ISTHMUS_DRIFT_REPORT_INITIALIZER.
typedef struct isthmusDriftReport_v1 {
  size_t size;
  unsigned int magic, version;
  unsigned long long epoch;             /* rises when any client's cluster changes, and when all are clustered anew */
  int k, reclustered;                   /* clusters; not 0: all were clustered anew, the first time not counted */
  unsigned long long clients, reported; /* known clients, and those of them with a report that was taken in now */
  unsigned long long repeated;          /* reports that were not, because another process reported the client for the same update */
  unsigned long long joined, migrated;  /* moves: of new clients, and from one cluster to another. A client counts twice that moves to the
                                           nearest cluster and then gets another one as all are clustered anew */
  unsigned long long quarantined;       /* clients that count nowhere because their updates disagree; always 0 in this API */
  unsigned long long unchanged;         /* clients whose reports were left out since the last update (deltaReport) */
  double rho, tau;   /* the largest move of a centre since the last clustering of all over theta, before this update clustered anew; tau as
                        configured. With rho above tau nothing need follow: see cooldownRounds */
  double theta;      /* the mean distance between centres at the last clustering of all; with one cluster that of clients to the centre */
  double silhouette; /* of the last clustering of all: -1 to 1, by how much clients are nearer to their own cluster than to the next */
  double spread;     /* the mean distance of clients to their centre; all are clustered anew when it has grown by half */
  unsigned long long sizes[ISTHMUS_COHORT_MAX_K]; /* clients by cluster; 0: kept though empty, for ten rounds */
  double hetMean[ISTHMUS_COHORT_MAX_K], hetP95[ISTHMUS_COHORT_MAX_K], hetMax[ISTHMUS_COHORT_MAX_K]; /* their distances to the centre */
} isthmusDriftReport_t;

#define ISTHMUS_DRIFT_REPORT_INITIALIZER                                                                                                 \
  {                                                                                                                                      \
    sizeof(isthmusDriftReport_t), ISTHMUS_MAGIC, ISTHMUS_VERSION_CODE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, { 0 } \
  }

/// Makes a cohort of the clients of all processes of `parent`, which must outlive it. Not collective; needs nobody.
ncclResult_t isthmusCohortInit(isthmusCohort_t* cohort, ncclComm_t parent, const isthmusCohortConfig_t* config);

/// A client of this process, known by a number of its own among all processes, says what its data are like: rep[0, dim), of `samples`
/// samples. It counts from the next update; of several before that the last counts. One that is no news costs nothing: it is left out.
/// A client is one process's at a time and may come to another. Of several processes' reports for one update that of the lowest rank
/// counts, and all that ever made one are in the communicator of the client's cluster.
///   ncclInvalidArgument  another dimension, no samples; shares that are negative or do not sum to 1 within 1e-4, a gradient's direction
///                        whose length is not 1 within 1e-3, numbers that are not finite
ncclResult_t isthmusCohortReport(isthmusCohort_t cohort, unsigned long long client, const float* rep, int dim, unsigned long long samples);

/// Collective over the parent: takes in what was reported anywhere, moves clients or clusters all anew. `report` may be NULL.
///   ncclInvalidArgument  processes' configurations differ (on all of them, saying how); too few clients: fewer than kMin or kFixed,
///                        or in the first update than kFixed times minCohort
///   ncclInvalidUsage     within ncclGroupStart and ncclGroupEnd
///   ncclRemoteError      a process of the parent is lost
ncclResult_t isthmusCohortUpdate(isthmusCohort_t cohort, isthmusDriftReport_t* report);

/// *cluster <- a client's cluster, of whichever process it is; -1 before the first update that knows it.
ncclResult_t isthmusCohortClusterOf(isthmusCohort_t cohort, unsigned long long client, int* cluster);

/// Collective over the parent: *comm <- a communicator of the processes that have clients in `cluster`, ordered by rank; NULL in others.
/// Where processes may have clients in several clusters, all of them call it once for every cluster, 0 to k - 1, in this order; *comm is
/// NULL in those without clients in it. Only where every process has clients of one cluster (or none, and passes -1) one call is enough,
/// to which each passes its own: it makes the communicators of all clusters. Group sums over one take the report's epoch; those with an
/// older one are refused. ncclCommDestroy ends it; after the epoch has risen it is to be made anew.
ncclResult_t isthmusCohortComm(isthmusCohort_t cohort, int cluster, ncclComm_t* comm);

/// How the last update makes new models of old ones: model k is the sum of mix[k * *kOld + l] times old model l, l from 0 to *kOld - 1, for
/// k from 0 to *kNew - 1. *mix is valid until the next update. *kOld is 0 where nothing was clustered anew, and models stay.
ncclResult_t isthmusCohortMix(isthmusCohort_t cohort, const double** mix, int* kOld, int* kNew);

/// Forgets the cohort. Its communicators stay, each until ncclCommDestroy.
ncclResult_t isthmusCohortDestroy(isthmusCohort_t cohort);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* ISTHMUS_H_ */
