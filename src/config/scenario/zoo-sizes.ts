/**
 * How large the models of the zoo are: the paper gives no sizes, so these are published parameter counts.
 *
 * Sources: the table of Keras Applications (keras.io/api/applications) for the image classifiers, rounded there to a
 * tenth of a million; MobileNetV3 from Howard et al. 2019 (arXiv:1905.02244) Table 3; SSD with MobileNet from Howard et al. 2017
 * (arXiv:1704.04861) Table 13, SSD 300; BERT from Devlin et al. 2018 (arXiv:1810.04805) §3, the base model.
 */

/** Millions of parameters. */
const PARAMETERS_M: Readonly<Record<string, number>> = {
  BERT: 110,
  DenseNet121: 8.1,
  DenseNet169: 14.3,
  DenseNet201: 20.2,
  EfficientNetB0: 5.3,
  EfficientNetB1: 7.9,
  EfficientNetB2: 9.2,
  EfficientNetB3: 12.3,
  EfficientNetB4: 19.5,
  EfficientNetB5: 30.6,
  EfficientNetB6: 43.3,
  EfficientNetB7: 66.7,
  EfficientNetV2B0: 7.2,
  EfficientNetV2B1: 8.2,
  EfficientNetV2B2: 10.2,
  EfficientNetV2B3: 14.5,
  EfficientNetV2L: 119,
  EfficientNetV2M: 54.4,
  EfficientNetV2S: 21.6,
  InceptionResNetV2: 55.9,
  InceptionV3: 23.9,
  MobileNet: 4.3,
  MobileNetV2: 3.5,
  MobileNetV3Large: 5.4,
  MobileNetV3Small: 2.5,
  NASNetLarge: 88.9,
  NASNetMobile: 5.3,
  ResNet101: 44.7,
  ResNet101V2: 44.7,
  ResNet152: 60.4,
  ResNet152V2: 60.4,
  ResNet50: 25.6,
  ResNet50V2: 25.6,
  SSDMobilenet: 6.8,
  VGG16: 138.4,
  VGG19: 143.7,
  Xception: 22.9,
};

const BYTES_PER_PARAMETER = 4;

/** Megabytes (10^6 bytes) of a zoo model's weights as 32-bit floats; null for a model that is not of the zoo. */
export function zooMemoryMb(name: string): number | null {
  const parameters = PARAMETERS_M[name];
  return parameters === undefined ? null : parameters * BYTES_PER_PARAMETER;
}
