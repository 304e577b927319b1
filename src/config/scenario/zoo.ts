/**
 * The model zoo of Symphony: latency profiles l(b) = alpha * b + beta and SLOs as measured by its authors.
 *
 * Source: Symphony, Appendix C, Table 3 (NVIDIA 1080Ti, 35 models) and Table 4 (NVIDIA A100, 37 models). Each SLO lets
 * its model run batches of at least 4 on two accelerators in turn. Table 2 of the paper uses other profiles for ResNet50
 * (1.053, 5.072, 25 ms) and InceptionResNetV2 (5.090, 18.368, 70 ms).
 */
export interface ZooModel {
  readonly name: string;
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly sloMs: number;
}

export const ZOO_NAMES = ["1080ti", "a100"] as const;
export type ZooName = (typeof ZOO_NAMES)[number];

/** Symphony parts the zoo by batching effect (Strong, Weak): strong above this ratio of beta to alpha, else weak. */
export const STRONG_BATCHING_RATIO = 2;

export function isStrong(model: ZooModel): boolean {
  return model.betaMs / model.alphaMs > STRONG_BATCHING_RATIO;
}

const row = (name: string, alphaMs: number, betaMs: number, sloMs: number): ZooModel => ({
  name,
  alphaMs,
  betaMs,
  sloMs,
});

export const ZOO: Readonly<Record<ZooName, readonly ZooModel[]>> = {
  "1080ti": [
    row("NASNetMobile", 0.57, 14.348, 33),
    row("MobileNetV3Small", 0.335, 5.35, 20),
    row("DenseNet169", 1.271, 13.618, 37),
    row("DenseNet121", 1.061, 10.312, 29),
    row("DenseNet201", 1.733, 15.687, 45),
    row("EfficientNetV2B0", 1.006, 7.493, 23),
    row("MobileNetV3Large", 0.82, 5.256, 20),
    row("InceptionV3", 1.964, 8.771, 33),
    row("EfficientNetV2B1", 1.661, 7.247, 27),
    row("ResNet50V2", 1.409, 5.947, 23),
    row("ResNet152V2", 3.471, 13.049, 53),
    row("ResNet101V2", 2.438, 9.095, 37),
    row("InceptionResNetV2", 5.09, 18.368, 77),
    row("EfficientNetB0", 1.569, 5.586, 23),
    row("MobileNetV2", 1.18, 3.483, 20),
    row("ResNet101", 3.164, 9.065, 43),
    row("EfficientNetB1", 2.489, 6.674, 33),
    row("ResNet50", 2.05, 5.378, 27),
    row("EfficientNetV2B2", 2.254, 5.896, 29),
    row("VGG19", 3.059, 7.857, 40),
    row("ResNet152", 4.599, 11.212, 59),
    row("MobileNet", 1.009, 2.39, 20),
    row("VGG16", 2.734, 5.786, 33),
    row("EfficientNetB2", 3.446, 5.333, 38),
    row("EfficientNetV2B3", 4.072, 5.981, 44),
    row("NASNetLarge", 17.656, 18.952, 179),
    row("EfficientNetV2S", 8.463, 8.862, 85),
    row("EfficientNetB3", 5.924, 4.849, 57),
    row("EfficientNetV2L", 40.313, 28.208, 378),
    row("EfficientNetV2M", 22.619, 14.786, 210),
    row("EfficientNetB5", 23.435, 10.301, 208),
    row("Xception", 4.751, 2.046, 42),
    row("SSDMobilenet", 23.778, 9.729, 209),
    row("EfficientNetB4", 12.088, 4.412, 105),
    row("BERT", 7.008, 0.159, 56),
  ],
  a100: [
    row("DenseNet121", 0.054, 10.546, 21),
    row("DenseNet201", 0.304, 14.345, 31),
    row("DenseNet169", 0.289, 13.365, 29),
    row("ResNet50V2", 0.135, 5.56, 20),
    row("EfficientNetB0", 0.115, 4.326, 20),
    row("ResNet101", 0.284, 8.266, 20),
    row("ResNet152", 0.39, 10.449, 24),
    row("ResNet101V2", 0.391, 8.219, 20),
    row("MobileNetV3Large", 0.196, 4.072, 20),
    row("EfficientNetB1", 0.291, 5.797, 20),
    row("ResNet50", 0.268, 5.172, 20),
    row("ResNet152V2", 0.589, 10.054, 24),
    row("MobileNetV2", 0.19, 2.892, 20),
    row("EfficientNetV2B3", 0.543, 7.596, 20),
    row("InceptionResNetV2", 1.112, 15.27, 39),
    row("EfficientNetV2B1", 0.443, 5.929, 20),
    row("NASNetMobile", 0.536, 6.86, 20),
    row("EfficientNetV2B0", 0.377, 4.272, 20),
    row("EfficientNetB2", 0.52, 5.333, 20),
    row("MobileNetV3Small", 0.315, 3.211, 20),
    row("InceptionV3", 0.913, 6.732, 20),
    row("MobileNet", 0.285, 1.901, 20),
    row("EfficientNetV2S", 1.454, 7.378, 26),
    row("EfficientNetV2B2", 0.901, 4.532, 20),
    row("VGG16", 0.66, 2.252, 20),
    row("EfficientNetB3", 1.239, 4.205, 20),
    row("Xception", 0.801, 2.638, 20),
    row("VGG19", 0.893, 2.181, 20),
    row("NASNetLarge", 3.464, 7.154, 42),
    row("EfficientNetV2M", 4.479, 6.861, 49),
    row("EfficientNetB4", 2.881, 4.103, 31),
    row("EfficientNetV2L", 7.52, 6.675, 73),
    row("EfficientNetB5", 6.121, 2.283, 53),
    row("SSDMobilenet", 19.448, 4.442, 164),
    row("EfficientNetB6", 9.754, 1.984, 82),
    row("EfficientNetB7", 16.339, 2.751, 136),
    row("BERT", 7.353, 0.222, 59),
  ],
};
